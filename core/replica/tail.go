package replica

import "slices"

// TailNews is what has become of a partition that a follower copies.
type TailNews uint8

// The news.
const (
	TailGrown TailNews = iota // the log's end has moved
	TailMoved                 // the high watermark has
	TailOver                  // this node leads no more, or the partition is closed: there will be no more news
)

// Tail is what tells one follower's session of what there is to fetch.
type Tail struct{ tell func(TailNews) }

// NewTail makes a tail that calls tell for all news, with no lock held, until TailOver or UnwatchEnd. Calls may overlap and come late.
func NewTail(tell func(TailNews)) *Tail { return &Tail{tell: tell} }

// WatchEnd registers t. What the log has already is no news. Only where this node leads: ErrNotLeader.
func (p *Partition) WatchEnd(t *Tail) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkEpoch(-1); err != nil {
		return err
	}
	p.tails = append(slices.Clip(p.tails), t) // those who are told at this moment have the old slice
	return nil
}

// UnwatchEnd takes t off the partition.
func (p *Partition) UnwatchEnd(t *Tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tails = slices.DeleteFunc(slices.Clone(p.tails), func(o *Tail) bool { return o == t })
}
