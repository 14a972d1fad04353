package replica

import (
	"time"
)

// DurableEndTag is the private tagged field of a partition in a follower's Fetch: its durable end, an int64, big-endian.
const DurableEndTag = 30565

// FetchAsk is what a follower wants of one partition next.
type FetchAsk struct {
	LeaderEpoch int32 // that it follows
	Next        int64 // its log's end
	LastEpoch   int32 // of its log's newest batch, -1 for none
	DurableEnd  int64
}

// FetchAnswer is what a leader said about one partition.
type FetchAnswer struct {
	LeaderEpoch   int32 // of the ask that it answers
	ErrorCode     int16
	HighWatermark int64
	Start         int64 // of the leader's log
	Diverging     bool  // the follower's log has what the leader's has not:
	Epoch         int32 // the newest epoch that the leader has, at most the ask's LastEpoch,
	EpochEnd      int64 // and where that one ends
	Records       []byte
}

// Fetcher decides what a node asks one leader for, about all partitions that it follows there. It is a value: no clock, no
// socket, no goroutine. Its methods may overlap.
type Fetcher struct {
	leader int32
}

// FetchRequest is one fetch: an incremental session's when Session is not 0, else one that begins a session.
type FetchRequest struct {
	Session, Epoch int32
	MaxWait        time.Duration
	Partitions     []*Partition // whose asks changed since the session heard of them
	Asks           []FetchAsk   // theirs
	Forgotten      []*Partition
}

// NewFetcher makes the fetcher from one leader, with nothing to fetch.
func NewFetcher(leader int32) *Fetcher { return &Fetcher{leader: leader} }

// Leader is the node that is asked.
func (f *Fetcher) Leader() int32 { return f.leader }
