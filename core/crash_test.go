package core

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage/vfs"
)

// TestCrashes steps a whole broker on one goroutine over a memory disk that crashes at a random call, again and again,
// and compares what is there after each start with what was acknowledged before. WEIR_SEEDS says how many runs.
func TestCrashes(t *testing.T) {
	seeds := 60
	if s := os.Getenv("WEIR_SEEDS"); s != "" {
		var err error
		if seeds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { crashes(t, uint64(seed)) }) {
			return
		}
	}
}

// crashRun is one seed: the model of what was acknowledged, and the broker of the moment.
type crashRun struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	b     *Broker
	now   time.Time
	id    string                      // cluster id
	kept  map[string]map[int64]string // acknowledged records by topic and offset
	alive map[string]bool             // topics: true created, false deleted, as acknowledged; absent: unknown
	open  map[string]bool             // topics with a creation or deletion whose fate is unknown
	parts map[string]int              // partitions of a topic, as acknowledged
	from  map[string]int64            // start offset of its partition 0, as acknowledged
	asked map[string]int64            // and as asked: what lies below may be gone
	next  int
	pids  map[int64]bool
}

func crashes(t *testing.T, seed uint64) {
	r := &crashRun{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewMem(), now: time.UnixMilli(1_700_000_000_000),
		kept: map[string]map[int64]string{}, alive: map[string]bool{}, open: map[string]bool{}, pids: map[int64]bool{},
		parts: map[string]int{}, from: map[string]int64{}, asked: map[string]int64{},
	}
	for range 4 {
		r.mem.CrashAt(r.mem.Ops()+1+int64(r.rng.IntN(300)), r.rng.IntN(2) == 0)
		if r.start() {
			r.check()
			for step := 0; step < 300 && !r.mem.Crashed() && !t.Failed(); step++ {
				r.step()
			}
			_ = r.b.Close() // on a crashed disk it fails, and that is the point
		}
		r.mem = r.mem.CrashClone(r.rng)
	}
	r.mem.CrashAt(0, false)
	if !r.start() {
		t.Fatal("doesn't start without a crash")
	}
	r.check()
	if err := r.b.Close(); err != nil {
		t.Error(err)
	}
}

func (r *crashRun) start() bool {
	cfg := Default("data")
	cfg.FS, cfg.WALFileBytes, cfg.TailBytes, cfg.ProducerIDBlock, cfg.OffsetsTopicPartitions = r.mem, 256<<10, 1<<20, 2, 2
	cfg.SnapshotEvery = 10
	cfg.Now = func() time.Time { return r.now }
	cfg.Advertise = "127.0.0.1:1"
	b, err := Open(cfg)
	if err != nil {
		if !r.mem.Crashed() {
			r.t.Fatalf("open: %v", err)
		}
		return false
	}
	r.b = b
	if r.id == "" {
		r.id = b.ClusterID()
	}
	if b.ClusterID() != r.id {
		r.t.Errorf("cluster id %s has become %s", r.id, b.ClusterID())
	}
	return true
}

func (r *crashRun) call(key, version int16, body kmsg.Request, done Done) {
	body.SetVersion(version)
	r.b.Handle(&Request{Key: key, Version: version, Body: body, Now: r.now}, done)
}

func (r *crashRun) step() {
	r.now = r.now.Add(time.Duration(r.rng.IntN(1000)) * time.Millisecond)
	names := slices.Sorted(maps.Keys(r.alive))
	switch n := r.rng.IntN(100); {
	case n < 5:
		r.createTopic(fmt.Sprintf("t%d", r.rng.IntN(6)))
	case n < 7 && len(names) > 0:
		r.deleteTopic(names[r.rng.IntN(len(names))])
	case n < 9:
		r.producerID()
	case n < 10 && len(names) > 0:
		r.grow(names[r.rng.IntN(len(names))])
	case n < 12 && len(names) > 0:
		r.deleteRecords(names[r.rng.IntN(len(names))])
	case n < 60 && len(names) > 0:
		r.produce(names[r.rng.IntN(len(names))])
	case n < 95:
		done, err := r.b.Store().Commit(r.now)
		for _, d := range done {
			d()
		}
		r.expect(err)
		r.b.Step(r.now)
	default:
		r.expect(r.b.Store().Flush(r.now))
	}
}

func (r *crashRun) expect(err error) {
	if err != nil && !r.mem.Crashed() {
		r.t.Errorf("an error without a crash: %v", err)
	}
}

func (r *crashRun) createTopic(name string) {
	if r.open[name] || r.alive[name] {
		return
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
	req.Topics = append(req.Topics, topic)
	r.open[name] = true
	r.call(19, 7, req, func(resp kmsg.Response) {
		if resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode == 0 {
			r.alive[name] = true
			r.kept[name] = map[int64]string{}
			delete(r.open, name)
		}
	})
}

func (r *crashRun) deleteTopic(name string) {
	if r.open[name] || !r.alive[name] {
		return
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	r.open[name] = true
	r.call(20, 4, req, func(resp kmsg.Response) {
		if resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode == 0 {
			r.alive[name] = false
			r.forget(name)
			delete(r.open, name)
		}
	})
}

func (r *crashRun) grow(name string) {
	if !r.alive[name] || r.open[name] {
		return
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = name, int32(len(r.b.topics.byName(name).parts)+1)
	req.Topics = append(req.Topics, topic)
	r.call(37, 3, req, func(resp kmsg.Response) {
		if resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode == 0 && r.kept[name] != nil {
			r.parts[name] = max(r.parts[name], int(topic.Count))
		}
	})
}

func (r *crashRun) deleteRecords(name string) {
	if !r.alive[name] || r.open[name] {
		return
	}
	hw := r.b.topics.byName(name).parts[0].HighWatermark()
	if hw == 0 {
		return
	}
	before := r.rng.Int64N(hw + 1)
	r.asked[name] = max(r.asked[name], before)
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = name
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = before
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	r.call(21, 2, req, func(resp kmsg.Response) {
		slot := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		if slot.ErrorCode == 0 && r.kept[name] != nil {
			r.from[name] = max(r.from[name], slot.LowWatermark)
		}
	})
}

// forget drops what the model knows of a topic that is gone.
func (r *crashRun) forget(name string) {
	delete(r.kept, name)
	delete(r.parts, name)
	delete(r.from, name)
	delete(r.asked, name)
}

func (r *crashRun) producerID() {
	r.call(22, 4, kmsg.NewPtrInitProducerIDRequest(), func(resp kmsg.Response) {
		if p := resp.(*kmsg.InitProducerIDResponse); p.ErrorCode == 0 {
			if r.pids[p.ProducerID] {
				r.t.Errorf("producer id %d was given twice", p.ProducerID)
			}
			r.pids[p.ProducerID] = true
		}
	})
}

func (r *crashRun) produce(name string) {
	if !r.alive[name] || r.open[name] {
		return
	}
	r.next++
	value := fmt.Sprintf("%s %d", name, r.next)
	acks := int16(1 - 2*r.rng.IntN(2))
	b := record.AppendBatch(nil, []record.Record{{Key: []byte("k"), Value: []byte(value)}}, r.now)
	r.call(0, 9, produceRequest(name, acks, b), func(resp kmsg.Response) {
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			return
		}
		if kept := r.kept[name]; kept != nil {
			if old, ok := kept[p.BaseOffset]; ok {
				r.t.Errorf("%s: offset %d was given to %q and to %q", name, p.BaseOffset, old, value)
			}
			kept[p.BaseOffset] = value
		}
	})
}

// check compares what the broker serves with what was acknowledged.
func (r *crashRun) check() {
	for name, alive := range r.alive {
		t := r.b.topics.byName(name)
		if r.open[name] {
			continue
		}
		if (t != nil) != alive {
			r.t.Errorf("topic %s: there %v, acknowledged %v", name, t != nil, alive)
		}
	}
	for name := range r.open { // their fate is known now
		t := r.b.topics.byName(name)
		delete(r.open, name)
		if r.alive[name] = t != nil; t == nil {
			r.forget(name)
		} else if r.kept[name] == nil {
			r.kept[name] = map[int64]string{}
		}
	}
	for name, kept := range r.kept {
		found := r.read(name)
		if t := r.b.topics.byName(name); t != nil {
			if got := len(t.parts); got < max(2, r.parts[name]) {
				r.t.Errorf("%s: %d partitions, acknowledged %d", name, got, r.parts[name])
			}
			if got := t.parts[0].Log().StartOffset(); got < r.from[name] || got > r.asked[name] {
				r.t.Errorf("%s: starts at %d, acknowledged %d, asked %d", name, got, r.from[name], r.asked[name])
			}
		}
		for offset, value := range kept {
			if got, ok := found[offset]; got != value && (ok || offset >= r.asked[name]) {
				r.t.Errorf("%s: acknowledged %q at %d, found %q", name, value, offset, found[offset])
			}
		}
		for offset, value := range found { // what was not acknowledged may be there; it is now
			kept[offset] = value
		}
	}
}

func (r *crashRun) read(name string) map[int64]string {
	found := map[int64]string{}
	t := r.b.topics.byName(name)
	if t == nil {
		return found
	}
	log := t.parts[0].Log()
	err := record.Scan(log.Read, log.StartOffset(), t.parts[0].HighWatermark(), func(offset int64, _, value []byte) error {
		if len(value) < len(name) || string(value[:len(name)]) != name {
			return errors.New("a record of another topic: " + string(value))
		}
		found[offset] = string(value)
		return nil
	})
	r.expect(err)
	return found
}
