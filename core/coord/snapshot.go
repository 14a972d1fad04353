package coord

import "time"

const (
	// snapshotFactor is how many times what is live the log may hold before it is written anew.
	snapshotFactor = 4
	// snapshotBatchRecords bounds one batch of a snapshot.
	snapshotBatchRecords = 500
	// snapshotRetryRecords is how many records may follow before it is looked again whether a snapshot is possible.
	snapshotRetryRecords = 64
)

// The log of a coordinator only grows: a connector that commits each second writes 86,400
// records a day for each of its partitions, of which the last counts. So now and then all
// that is live is appended again, and when that is durable the log may start there: what a
// compaction would leave, at a cost in proportion to what was appended since the last one.
// The design that lost is waiting for the store's compaction: until then each restart reads
// everything that was ever committed.
//
// A snapshot is taken only when no batch is under way and every stored group is at rest:
// then memory and log say the same, and the snapshot can't hide anything newer.

// maybeSnapshot writes the state anew if it is time and possible.
func (c *Coordinator) maybeSnapshot() {
	if c.logged < max(c.cfg.SnapshotRecords, c.snapshotAt) || len(c.appending) > 0 || c.closed != 0 || !c.loaded {
		return
	}
	live := 0
	for _, g := range c.groups {
		if g.stored {
			if g.state != Empty && g.state != Stable {
				c.snapshotAt = c.logged + snapshotRetryRecords
				return
			}
			live++
		}
		live += len(g.offsets)
	}
	if c.logged < snapshotFactor*live || live == 0 {
		c.snapshotAt = max(snapshotFactor*live, c.logged+snapshotRetryRecords)
		return
	}
	c.snapshot(live)
}

func (c *Coordinator) snapshot(live int) {
	records := make([]Record, 0, live)
	for _, g := range c.sortedGroups() {
		if g.stored {
			records = append(records, groupRecord(g, g.assignments(), g.since))
		}
		for _, at := range g.sortedOffsets() {
			o := g.offsets[at]
			records = append(records, offsetRecord(g.id, at, &o))
		}
	}
	before := c.logged
	c.logged, c.snapshotAt = 0, 0
	left, failed, first := 0, false, c.lastID+1
	done := func(code int16, _ time.Time) {
		left--
		failed = failed || code != 0
		switch {
		case left > 0:
		case failed:
			c.logged += before
		default:
			c.out.Trim = first
		}
	}
	for len(records) > 0 {
		n := min(len(records), snapshotBatchRecords)
		left++
		c.append(records[:n:n], done)
		records = records[n:]
	}
	c.out.Batches[len(c.out.Batches)-left].Snapshot = true
}
