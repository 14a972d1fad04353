package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weirlog/weir/storage"
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
	Ask           FetchAsk // that it answers
	ErrorCode     int16
	HighWatermark int64
	Start         int64 // of the leader's log
	Diverging     *Diverging
	Records       []byte // whole batches; the last may be cut short
}

// Ask is what this node wants of the leader; false where it leads itself or there is nobody to ask.
func (p *Partition) Ask() (FetchAsk, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isFollowing() {
		return FetchAsk{}, false
	}
	ask := FetchAsk{p.assigned.LeaderEpoch, p.log.EndOffset(), p.log.LeaderEpoch(), p.log.DurableEnd()}
	p.follow(ask.DurableEnd)
	if p.faults.ForgetEpoch {
		ask.LastEpoch = -1
	}
	return ask, true
}

// unsynced is the ticket of what isn't known to be durable here, 0 if all is. It may have been put while this node led, or followed another.
func (p *Partition) unsynced() storage.Ticket {
	if ticket := p.log.Ticket(); p.log.DurableEnd() < p.log.EndOffset() {
		return ticket
	}
	return 0
}

func (p *Partition) isFollowing() bool {
	return p.closed == nil && p.isAssigned && p.assigned.Leader >= 0 && p.assigned.Leader != p.self
}

// Take makes the log more like the leader's: it is cut where they part, or begun anew where the leader's begins, or grows. Answers may come late and
// twice: one to what was asked in another epoch is dropped, and so is one that speaks of a log that is no more. The ticket is that of what was put, 0 if nothing was. Errors are the log's; what came before one stays.
func (p *Partition) Take(a FetchAnswer, now time.Time) (storage.Ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isFollowing() || a.Ask.LeaderEpoch != p.assigned.LeaderEpoch {
		return 0, nil
	}
	ticket, err := p.take(a, now)
	if end := p.log.EndOffset(); p.hw > end { // an unclean election
		p.hw = end
	}
	if err == nil {
		if a.Diverging == nil { // else it isn't known yet that what lies below is the same
			p.leaderHW = max(p.leaderHW, a.HighWatermark)
		}
		p.follow(p.log.DurableEnd())
	}
	return ticket, err
}

// follow moves the high watermark to the leader's, as far as that is durable here. Called with mu held.
func (p *Partition) follow(durableEnd int64) {
	if hw := min(p.leaderHW, durableEnd); hw > p.hw {
		p.hw = hw
		p.log.SetStableEnd(hw)
	}
}

func (p *Partition) take(a FetchAnswer, now time.Time) (storage.Ticket, error) {
	end := p.log.EndOffset()
	switch isSame := a.Ask.Next == end && a.Ask.LastEpoch == p.log.LeaderEpoch(); {
	case p.faults.TrustLate:
	case a.Diverging != nil && !isSame, a.Ask.Next > end: // it was cut since
		return 0, nil
	}
	switch {
	case a.Diverging != nil:
		return p.cut(a)
	case a.Start > p.log.EndOffset():
		return p.log.Restart(a.Start)
	}
	ticket, err := p.appendAll(a, now)
	if err == nil && a.Start > p.log.StartOffset() {
		_, err = p.log.AdvanceStart(min(a.Start, p.log.EndOffset()))
	}
	return ticket, err
}

// cut removes what the leader doesn't have: all from where the newest epoch that both may have ends, here or there (KIP-279).
func (p *Partition) cut(a FetchAnswer) (storage.Ticket, error) {
	if p.faults.SkipCut {
		return 0, nil
	}
	end := a.Diverging.End
	if _, own := p.log.EndOfEpoch(a.Diverging.Epoch); own < end || a.Diverging.Epoch < 0 {
		end = own
	}
	if end <= p.log.StartOffset() { // nothing in common
		return p.log.Restart(max(a.Start, 0))
	}
	return p.log.Truncate(end)
}

// errGap is records that don't begin where the log ends.
var errGap = errors.New("the leader's records leave something out")

// appendAll appends the batches that this log lacks. One of an epoch above the one that was asked in belongs to an answer of another life.
func (p *Partition) appendAll(a FetchAnswer, now time.Time) (ticket storage.Ticket, err error) {
	for rest := a.Records; len(rest) > 0; {
		if isCutShort(rest) {
			return ticket, nil
		}
		b, err := storage.ParseBatch(rest)
		if err != nil {
			return ticket, fmt.Errorf("replicate %s-%d: %w", p.Topic, p.Index, err)
		}
		rest = rest[len(b):]
		switch end := p.log.EndOffset(); {
		case b.LeaderEpoch() > a.Ask.LeaderEpoch:
			return ticket, nil
		case b.LastOffset() < end: // asked for twice
			continue
		case b.BaseOffset() < end && end == p.log.StartOffset(): // it begins where a leader's did, in the midst of a batch
			if ticket, err = p.log.Restart(b.BaseOffset()); err != nil {
				return ticket, fmt.Errorf("replicate %s-%d: %w", p.Topic, p.Index, err)
			}
		case b.BaseOffset() < end:
			return ticket, fmt.Errorf("replicate %s-%d: %w: batch at %d, the log ends at %d", p.Topic, p.Index, errGap, b.BaseOffset(), end)
		}
		app, err := p.log.AppendAt(b, now)
		if err != nil {
			return ticket, fmt.Errorf("replicate %s-%d: %w", p.Topic, p.Index, err)
		}
		ticket = max(ticket, app.Ticket)
	}
	return ticket, nil
}

// isCutShort says that a batch's end is missing.
func isCutShort(b []byte) bool {
	const lengthBytes = 12 // base offset, and the length of what follows
	return len(b) < lengthBytes || int64(len(b)-lengthBytes) < int64(int32(binary.BigEndian.Uint32(b[8:])))
}
