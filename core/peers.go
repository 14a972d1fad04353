package core

import "github.com/twmb/franz-go/pkg/kmsg"

// Lane is one of the two connections from a node to another: what is small and urgent never stands behind records.
type Lane uint8

// The lanes.
const (
	LaneControl Lane = iota // raft, and the seldom requests of private keys
	LaneData                // fetches of followers
)

func (l Lane) String() string {
	if l == LaneData {
		return "data"
	}
	return "control"
}

// Peers is how a node reaches the others of its cluster: over TCP, or in memory where a whole cluster is stepped on one goroutine.
type Peers interface {
	// Call sends a request to a node. It never blocks and may be called under any lock; done is called exactly once, perhaps before Call returns
	// when the request can't be sent, and must be fit for that. nil done: no answer is wanted, and what can't be sent is dropped. The
	// request isn't changed afterwards by anyone; the response is done's, but for the records of a Fetch, which are there until done returns.
	Call(to int32, lane Lane, req kmsg.Request, done func(kmsg.Response, error))
	// SetNodes says who the others are: HOST:PORT by node id. Who isn't named any more is disconnected.
	SetNodes(nodes map[int32]string)
}
