package worker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlog/weir/connect"
)

// counters are a task's figures; they live as long as its slot. Written by the task's goroutines, read by Stats.
type counters struct {
	in, out, filtered, dead, skipped atomic.Uint64
	inFlight                         atomic.Int64
	bytesOut, batches                atomic.Uint64
	batchMax                         atomic.Int64
	commits, commitFailures          atomic.Uint64
	errors, retries, restarts        atomic.Uint64

	mu                    sync.Mutex
	commitLast, commitMax time.Duration
	commitAt              time.Time
	retryReason           string
	retryAttempt          int
	lag                   []PartitionLag
	ends                  map[connect.TopicPartition]int64
}

func (c *counters) batch(records int) {
	c.batches.Add(1)
	for {
		old := c.batchMax.Load()
		if int64(records) <= old || c.batchMax.CompareAndSwap(old, int64(records)) {
			return
		}
	}
}

func (c *counters) committed(took time.Duration, at time.Time) {
	c.commits.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commitLast, c.commitAt = took, at
	c.commitMax = max(c.commitMax, took)
}

// retrying sets what is being retried; attempt 0 ends it.
func (c *counters) retrying(reason string, attempt int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retryReason, c.retryAttempt = reason, attempt
}

func (c *counters) setLag(lag []PartitionLag) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = lag
	for i := range c.lag {
		l := &c.lag[i]
		if end, ok := c.ends[connect.TopicPartition{Topic: l.Topic, Partition: l.Partition}]; ok {
			l.measure(end)
		}
	}
}

// measure sets the lag from the end of the log: what is not committed, or not read where nothing is committed yet.
func (l *PartitionLag) measure(end int64) {
	from := l.Committed
	if from < 0 {
		from = l.Position
	}
	l.Lag = max(end-from, 0)
}

// lagTopics names the topics whose ends are wanted.
func (c *counters) lagTopics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for i := range c.lag {
		if !slices.Contains(out, c.lag[i].Topic) {
			out = append(out, c.lag[i].Topic)
		}
	}
	return out
}

// setEnd sets the end of a partition's log.
func (c *counters) setEnd(topic string, partition int32, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[connect.TopicPartition]int64{}
	}
	for i := range c.lag {
		if l := &c.lag[i]; l.Topic == topic && l.Partition == partition {
			c.ends[connect.TopicPartition{Topic: topic, Partition: partition}] = end
			l.measure(end)
		}
	}
}

// progress grows when the task gets past something for good: when offsets are committed that are not those of before.
// Records alone are no progress: a life that fails at one record repeats those before it.
func (c *counters) progress() uint64 { return c.commits.Load() }

// stats copies the figures.
func (c *counters) stats(s *TaskStats) {
	s.In, s.Out, s.Filtered = c.in.Load(), c.out.Load(), c.filtered.Load()
	s.DeadLettered, s.Skipped, s.InFlight = c.dead.Load(), c.skipped.Load(), c.inFlight.Load()
	s.BytesOut, s.Batches, s.BatchRecordsMax = c.bytesOut.Load(), c.batches.Load(), c.batchMax.Load()
	s.Commits, s.CommitFailures = c.commits.Load(), c.commitFailures.Load()
	s.Errors, s.Retries, s.Restarts = c.errors.Load(), c.retries.Load(), c.restarts.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.CommitLast, s.CommitMax, s.CommitLastAt = c.commitLast, c.commitMax, c.commitAt
	s.RetryReason, s.RetryAttempt = c.retryReason, c.retryAttempt
	s.Lag = append([]PartitionLag(nil), c.lag...)
}

// abandon forgets the records that a life took and did not end: they will be taken again.
func (c *counters) abandon() {
	if n := c.inFlight.Swap(0); n > 0 {
		c.in.Add(^uint64(n - 1))
	}
}
