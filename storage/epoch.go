package storage

import "sort"

// epochStart says at which offset a leader epoch begins.
type epochStart struct {
	epoch int32
	start int64
}

// epochCache lists the leader epochs of a log, rising in both fields.
type epochCache []epochStart

// latest is the newest epoch, or -1.
func (c epochCache) latest() int32 {
	if len(c) == 0 {
		return -1
	}
	return c[len(c)-1].epoch
}

// assign notes that a batch of the epoch begins at start.
func (c *epochCache) assign(epoch int32, start int64) {
	if epoch > c.latest() {
		*c = append(*c, epochStart{epoch, start})
	}
}

// truncate forgets epochs that begin at end or later.
func (c *epochCache) truncate(end int64) {
	n := len(*c)
	for n > 0 && (*c)[n-1].start >= end {
		n--
	}
	*c = (*c)[:n]
}

// advance drops epochs that end at or before the new start offset; the one that holds it begins there.
func (c *epochCache) advance(start int64) {
	i := sort.Search(len(*c), func(i int) bool { return (*c)[i].start > start })
	if i == 0 {
		return
	}
	rest := append(epochCache(nil), (*c)[i-1:]...)
	rest[0].start = start
	*c = rest
}

// at is the epoch that an offset lies in, or -1.
func (c epochCache) at(offset int64) int32 {
	i := sort.Search(len(c), func(i int) bool { return c[i].start > offset })
	return c[:i].latest()
}

// endOf answers the largest epoch ≤ epoch and the offset where it ends.
func (c epochCache) endOf(epoch int32, logEnd int64) (found int32, end int64) {
	i := sort.Search(len(c), func(i int) bool { return c[i].epoch > epoch })
	switch {
	case i == 0:
		return -1, -1
	case i == len(c):
		return c[i-1].epoch, logEnd
	}
	return c[i-1].epoch, c[i].start
}
