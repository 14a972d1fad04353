package connecttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
)

// Driver is a small worker around one sink: a log in memory, committed offsets, and one task at a time. Tests of a
// connector use it for scenarios of their own. It is for one goroutine.
type Driver struct {
	t     testing.TB
	c     connect.Connector
	world SinkWorld
	pass  transport
	task  connect.SinkTask

	Log       map[connect.TopicPartition][]connect.Record // what was fed, in offset order
	Committed map[connect.TopicPartition]connect.Committed
	Bad       map[connect.Origin]string // refused by Put or rejected by Flush
	Retries   int                       // calls that answered Retry

	position map[connect.TopicPartition]int // of assigned partitions: index into Log of the next record to put
	untold   map[connect.TopicPartition]connect.Committed
	nextID   int
}

// NewDriver makes a driver with no task: call [Driver.Open].
func NewDriver(t testing.TB, c connect.Connector, w SinkWorld) *Driver {
	return newDriver(t, c, w, transports()["direct"])
}

func newDriver(t testing.TB, c connect.Connector, w SinkWorld, pass transport) *Driver {
	return &Driver{
		t: t, c: c, world: w, pass: pass,
		Log:       map[connect.TopicPartition][]connect.Record{},
		Committed: map[connect.TopicPartition]connect.Committed{},
		Bad:       map[connect.Origin]string{},
		position:  map[connect.TopicPartition]int{},
		untold:    map[connect.TopicPartition]connect.Committed{},
	}
}

// Open opens a task; the last one must have been closed or killed.
func (d *Driver) Open() {
	d.t.Helper()
	d.OpenTask(newTask(d.t, d.world.Config))
}

// OpenTask is Open with a task of the caller's.
func (d *Driver) OpenTask(task connect.Task) {
	d.t.Helper()
	clear(d.position)
	clear(d.untold)
	d.retrying("open", func() error {
		sink, err := d.c.Sink(d.t.Context(), task)
		d.task = sink
		return err
	})
}

// Task gives the open task.
func (d *Driver) Task() connect.SinkTask { return d.task }

// Close ends the task as a worker does that has time.
func (d *Driver) Close() {
	d.t.Helper()
	if err := d.task.Close(d.t.Context()); err != nil {
		d.t.Fatalf("close: %v", err)
	}
}

// Kill ends the task without time to finish anything, as near to a kill as one process can come.
func (d *Driver) Kill() {
	ctx, cancel := context.WithCancel(d.t.Context())
	cancel()
	_ = d.task.Close(ctx)
}

// Feed appends n records to the log of a partition. Offsets have gaps, as compacted and transactional topics do.
func (d *Driver) Feed(tp connect.TopicPartition, n int) {
	for range n {
		key, value := d.record(d.nextID)
		d.FeedData(tp, key, value)
	}
}

// FeedData appends one record.
func (d *Driver) FeedData(tp connect.TopicPartition, key, value connect.Data) {
	offset := int64(0)
	if log := d.Log[tp]; len(log) > 0 {
		offset = log[len(log)-1].Origin.Offset + 1
		if d.nextID%7 == 0 {
			offset += 3
		}
	}
	d.Log[tp] = append(d.Log[tp], connect.Record{
		Topic: tp.Topic, Partition: tp.Partition, Timestamp: 1_700_000_000_000 + int64(d.nextID)*1000,
		Key: key, Value: value,
		Origin: connect.Origin{Topic: tp.Topic, Partition: tp.Partition, Offset: offset},
	})
	d.nextID++
}

func (d *Driver) record(i int) (key, value connect.Data) {
	if d.world.Record != nil {
		return d.world.Record(i)
	}
	return JSON(fmt.Appendf(nil, `"key-%d"`, i)), JSON(fmt.Appendf(nil, `{"id":%d,"text":"text of %d"}`, i, i))
}

// Records gives all that was fed and not refused.
func (d *Driver) Records() []connect.Record {
	var out []connect.Record
	for _, log := range d.Log {
		for _, r := range log {
			if _, bad := d.Bad[r.Origin]; !bad {
				out = append(out, r)
			}
		}
	}
	return out
}

// Assign adds partitions with what is committed for them.
func (d *Driver) Assign(tps ...connect.TopicPartition) {
	d.t.Helper()
	var added []connect.Assigned
	for _, tp := range tps {
		c, ok := d.Committed[tp]
		if !ok {
			c.Offset = -1
		}
		a := connect.Assigned{TopicPartition: tp, Offset: c.Offset, Metadata: c.Metadata}
		if log := d.Log[tp]; len(log) > 0 {
			a.End = log[len(log)-1].Origin.Offset + 1
		}
		added = append(added, a)
		d.seek(tp, c.Offset)
	}
	d.retrying("assign", func() error {
		starts, err := d.task.Assign(d.t.Context(), added)
		for _, s := range starts {
			d.seek(s.TopicPartition, s.Offset)
		}
		return err
	})
}

func (d *Driver) seek(tp connect.TopicPartition, next int64) {
	i := slices.IndexFunc(d.Log[tp], func(r connect.Record) bool { return r.Origin.Offset >= next })
	if i < 0 {
		i = len(d.Log[tp])
	}
	d.position[tp] = i
}

// Revoke flushes and takes partitions away.
func (d *Driver) Revoke(tps ...connect.TopicPartition) {
	d.t.Helper()
	d.Flush(true)
	for _, tp := range tps {
		delete(d.position, tp)
		delete(d.untold, tp)
	}
	if err := d.task.Revoke(d.t.Context(), tps); err != nil {
		d.t.Fatalf("revoke: %v", err)
	}
}

// Put hands over at most max further records of every assigned partition in one call, repeats it as the contract says,
// and answers how many records were taken.
func (d *Driver) Put(max int) int {
	d.t.Helper()
	var batch []connect.Record
	for tp, at := range d.position {
		n := min(max, len(d.Log[tp])-at)
		batch = append(batch, d.Log[tp][at:at+n]...)
		d.position[tp] = at + n
	}
	d.PutRecords(batch)
	return len(batch)
}

// PutRecords hands over records of the caller's.
func (d *Driver) PutRecords(batch []connect.Record) {
	d.t.Helper()
	for {
		bad := -1
		d.retrying("put", func() error {
			records, wipe := d.handOver(batch)
			err := d.task.Put(d.t.Context(), records)
			wipe()
			switch connect.KindOf(d.t.Context(), err) {
			case connect.KindRetry:
				_ = d.flushOnce() // commit ticks go on meanwhile; their own Retry says no more than Put's
				return err
			case connect.KindBadRecord:
			default:
				return err
			}
			var e *connect.Error
			errors.As(err, &e)
			bad = e.Index
			if bad < 0 || bad >= len(batch) {
				d.t.Fatalf("put: BadRecord(%d) of %d records", bad, len(batch))
			}
			d.refuse(batch[bad].Origin, err.Error())
			return nil
		})
		if bad < 0 {
			return
		}
		batch = slices.Delete(slices.Clone(batch), bad, bad+1)
	}
}

func (d *Driver) refuse(o connect.Origin, reason string) {
	if _, twice := d.Bad[o]; twice {
		d.t.Errorf("%v was refused twice", o)
	}
	d.Bad[o] = reason
}

// handOver copies records into memory of their own; wipe overwrites it.
func (d *Driver) handOver(batch []connect.Record) (records []connect.Record, wipe func()) {
	var slabs [][]byte
	for _, r := range batch {
		for _, data := range []*connect.Data{&r.Key, &r.Value} {
			if b, format, ok := data.Encoded(); ok {
				slabs = append(slabs, bytes.Clone(b))
				*data = connect.EncodedData(slabs[len(slabs)-1], codecOf(format))
			}
		}
		records = append(records, r)
	}
	records = d.pass.records(d.t, records)
	if !d.c.Lazy {
		for i := range records {
			if err := records[i].Decode(); err != nil {
				d.t.Fatalf("decode: %v", err)
			}
		}
	}
	for i := range records { // what the packed form shares
		for _, data := range []*connect.Data{&records[i].Key, &records[i].Value} {
			if b, _, ok := data.Encoded(); ok {
				slabs = append(slabs, b)
			}
		}
	}
	return records, func() {
		for _, s := range slabs {
			for i := range s {
				s[i] = '#'
			}
		}
		clear(records)
	}
}

// Flush is one commit tick. With commit the answer is committed, and told by the next Flush; without it the worker dies
// before it can commit: kill the task next.
func (d *Driver) Flush(commit bool) connect.Flushed {
	d.t.Helper()
	var f connect.Flushed
	d.retrying("flush", func() (err error) {
		f, err = d.flush()
		return err
	})
	if commit {
		d.commit(f)
	}
	return f
}

// flushOnce is Flush(true) without repeating it.
func (d *Driver) flushOnce() error {
	f, err := d.flush()
	if err == nil {
		d.commit(f)
	}
	return err
}

func (d *Driver) flush() (connect.Flushed, error) {
	var told []connect.Committed
	for _, c := range d.untold {
		told = append(told, c)
	}
	f, err := d.task.Flush(d.t.Context(), told)
	if err == nil {
		clear(d.untold)
		d.check(f)
	}
	return f, err
}

func (d *Driver) commit(f connect.Flushed) {
	for _, r := range f.Rejected {
		d.refuse(r.Origin, r.Reason)
	}
	for _, c := range f.Durable {
		d.Committed[c.TopicPartition] = c
		d.untold[c.TopicPartition] = c
	}
}

func (d *Driver) check(f connect.Flushed) {
	for _, c := range f.Durable {
		at, assigned := d.position[c.TopicPartition]
		if !assigned {
			d.t.Errorf("flush: %v is not assigned", c)
			continue
		}
		end := int64(0)
		if at > 0 {
			end = d.Log[c.TopicPartition][at-1].Origin.Offset + 1
		}
		if old := d.Committed[c.TopicPartition]; c.Offset < old.Offset || c.Offset > end {
			d.t.Errorf("flush: %v is not between what is committed, %d, and what was put, %d", c, old.Offset, end)
		}
	}
	for _, r := range f.Rejected {
		if r.Reason == "" {
			d.t.Errorf("flush: %v was rejected without a reason", r.Origin)
		}
	}
}

// Drain puts all that is left and flushes until all of it is committed.
func (d *Driver) Drain() {
	d.t.Helper()
	for d.Put(50) > 0 {
	}
	await(d.t, "all records to be durable", func() bool {
		d.Flush(true)
		for tp := range d.position {
			log := d.Log[tp]
			if len(log) > 0 && d.Committed[tp].Offset <= log[len(log)-1].Origin.Offset {
				return false
			}
		}
		return true
	})
}

// CheckContent compares the foreign system with what was fed.
func (d *Driver) CheckContent() {
	d.t.Helper()
	got, want := d.world.Read(), d.world.Want(d.Records())
	if len(want) == 0 {
		d.t.Fatal("the check would compare nothing")
	}
	if d.world.Appends {
		got, want = distinct(got), distinct(want)
	}
	if diff := difference(got, want); diff != "" {
		d.t.Errorf("the foreign system differs (+ too much, - missing):\n%s", diff)
	}
}

func distinct(lines []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(lines)))
}

// retrying makes a call again while it answers Retry; any other error ends the test.
func (d *Driver) retrying(what string, call func() error) {
	d.t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := call()
		if err == nil {
			return
		}
		after, ok := retryAfter(err)
		if !ok {
			d.t.Fatalf("%s: %v", what, err)
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s: still to be repeated after %v: %v", what, Patience, err)
		}
		d.Retries++
		time.Sleep(after) // the wait that the connector asked for
	}
}
