package core

// groups is the broker's side of core/coord: it holds the coordinator's state, feeds it requests, timers and
// durability, and appends what it wants appended to __consumer_offsets.
type groups struct{}

// groupAPIs lists the group keys (8-16, 42) that are served.
func groupAPIs() []api { return nil }

// openGroups is called at the end of Open, when the partitions are there and nothing is served yet.
func (b *Broker) openGroups() error { return nil }
