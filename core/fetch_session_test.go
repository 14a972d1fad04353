package core

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/storage/vfs"
)

// sessionRun is one seeded history of a client with a fetch session, which must know after each fetch what a full fetch would tell it.
type sessionRun struct {
	t       *testing.T
	rng     *rand.Rand
	b       *Broker
	now     time.Time
	version int16

	asks      map[fetchKey]fetchAsk // what the client wants
	id, epoch int32
	changed   map[fetchKey]bool // not yet told to the broker
	forgotten []fetchKey
	view      map[fetchKey]told
	resets    int
}

// told is what a client was told of a partition.
type told struct {
	errorCode int16
	hw, start int64
	records   string
}

func (r *sessionRun) call(key, version int16, body kmsg.Request) kmsg.Response {
	body.SetVersion(version)
	var got kmsg.Response
	r.b.Handle(&Request{Key: key, Version: version, Body: body, Now: r.now}, func(resp kmsg.Response) { got = resp })
	for range 3 {
		if got != nil {
			break
		}
		done, err := r.b.Store().Commit(r.now)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, d := range done {
			d()
		}
	}
	if got == nil {
		r.t.Fatalf("key %d is not answered", key)
	}
	return got
}

func (r *sessionRun) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(r.version)
	if err := resp.ReadFrom(r.call(keyFetch, r.version, req).AppendTo(nil)); err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// request asks for the keys.
func (r *sessionRun) request(id, epoch int32, keys []fetchKey) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionID, req.SessionEpoch = 1<<20, id, epoch
	for _, k := range keys {
		a := r.asks[k]
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = k.name, k.id
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = k.index, a.next, a.maxBytes, a.epoch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func each(resp *kmsg.FetchResponse, do func(fetchKey, told)) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			x := told{p.ErrorCode, p.HighWatermark, p.LogStartOffset, string(p.RecordBatches)}
			do(fetchKey{t.Topic, t.TopicID, p.Partition}, x)
		}
	}
}

// poll is one fetch of the session, as KIP-227 has clients do it.
func (r *sessionRun) poll() {
	keys := r.sorted(r.changed)
	if r.epoch == sessionInitial {
		all := map[fetchKey]bool{}
		for k := range r.asks {
			all[k] = true
		}
		keys = r.sorted(all)
		r.view = map[fetchKey]told{}
	}
	req := r.request(r.id, r.epoch, keys)
	if r.epoch != sessionInitial {
		for _, k := range r.forgotten {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID, t.Partitions = k.name, k.id, []int32{k.index}
			req.ForgottenTopics = append(req.ForgottenTopics, t)
		}
	}
	resp := r.fetch(req)
	switch resp.ErrorCode {
	case kerr.FetchSessionIDNotFound.Code, kerr.InvalidFetchSessionEpoch.Code:
		r.epoch = sessionInitial
		r.resets++
		r.poll()
		return
	case 0:
	default:
		r.t.Fatalf("fetch: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	for k, x := range r.view {
		x.records = ""
		r.view[k] = x
	}
	each(resp, func(k fetchKey, x told) {
		if _, wanted := r.asks[k]; !wanted {
			r.t.Fatalf("answered %v, which is not wanted", k)
		}
		if old, known := r.view[k]; known && old == x && x.errorCode == 0 && x.records == "" {
			r.t.Fatalf("%v is answered again and nothing is new: %+v", k, x)
		}
		r.view[k] = x
	})
	r.changed, r.forgotten = map[fetchKey]bool{}, nil
	r.id, r.epoch = resp.SessionID, nextSessionEpoch(r.epoch)
	if r.id == 0 {
		r.epoch = sessionInitial
	}
	r.compare()
}

// compare asks for everything without a session.
func (r *sessionRun) compare() {
	all := map[fetchKey]bool{}
	for k := range r.asks {
		all[k] = true
	}
	want := map[fetchKey]told{}
	each(r.fetch(r.request(0, sessionFinal, r.sorted(all))), func(k fetchKey, x told) { want[k] = x })
	if !reflect.DeepEqual(r.view, want) {
		for k, w := range want {
			if got := r.view[k]; got != w {
				r.t.Errorf("%v asked %+v: told %+v, want %+v", k, r.asks[k], got, w)
			}
		}
		r.t.Fatalf("told of %d partitions, want %d", len(r.view), len(want))
	}
}

func (r *sessionRun) sorted(keys map[fetchKey]bool) []fetchKey {
	var list []fetchKey
	for k := range keys {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b fetchKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.index, b.index))
	})
	return list
}

// key names a partition as the version does; of a topic that is not there the id is made up.
func (r *sessionRun) key(name string, index int32) fetchKey {
	if r.version < 13 {
		return fetchKey{name: name, index: index}
	}
	if t := r.b.topics.byName(name); t != nil {
		return fetchKey{id: t.ID, index: index}
	}
	return fetchKey{id: [16]byte{1, byte(r.rng.IntN(3))}, index: index}
}

func (r *sessionRun) want(k fetchKey, next int64) {
	r.asks[k] = fetchAsk{fetchKey: k, next: next, maxBytes: 1 << 20, epoch: -1}
	r.changed[k] = true
	r.forgotten = slices.DeleteFunc(r.forgotten, func(f fetchKey) bool { return f == k })
}

func (r *sessionRun) step() {
	name, index := fmt.Sprintf("t%d", r.rng.IntN(3)), int32(r.rng.IntN(4))
	k := r.key(name, index)
	switch n := r.rng.IntN(100); {
	case n < 30:
		req := produceRequest(name, -1, batch(fmt.Sprint(r.rng.Int())))
		req.Topics[0].Partitions[0].Partition = index
		r.call(keyProduce, 9, req)
	case n < 40:
		r.want(k, int64(r.rng.IntN(5)))
	case n < 50: // it has read what it was told
		for k, x := range r.view {
			if a, wanted := r.asks[k]; wanted && x.errorCode == 0 && x.hw != a.next && r.rng.IntN(2) == 0 {
				r.want(k, x.hw)
			}
		}
	case n < 57:
		if _, wanted := r.asks[k]; wanted {
			delete(r.asks, k)
			delete(r.changed, k)
			delete(r.view, k)
			r.forgotten = append(r.forgotten, k)
		}
	case n < 60:
		req := kmsg.NewPtrDeleteRecordsRequest()
		t := kmsg.NewDeleteRecordsRequestTopic()
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		t.Topic, p.Partition, p.Offset = name, index, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		r.call(21, 2, req)
	case n < 63:
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{name}
		r.call(20, 3, req)
	case n < 68:
		req := kmsg.NewPtrCreateTopicsRequest()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 3, 1
		req.Topics = append(req.Topics, t)
		r.call(19, 5, req)
	case n < 70:
		r.b.sessions.remove(r.id)
	case n < 71:
		r.epoch = nextSessionEpoch(r.epoch)
	case n < 72: // a new session while the old one is there
		r.epoch = sessionInitial
	default:
		r.poll()
	}
}

// TestFetchSessionsTellWhatFullFetchesDo runs clients through topics that come, go, grow and are made again, sessions that
// are evicted, and numbers that don't fit.
func TestFetchSessionsTellWhatFullFetchesDo(t *testing.T) {
	polls, resets := 0, 0
	for seed := range uint64(60) {
		cfg := Default("data")
		cfg.FS, cfg.WALFileBytes, cfg.Advertise = vfs.NewMem(), 256<<10, "127.0.0.1:1"
		b, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := &sessionRun{t: t, rng: rand.New(rand.NewPCG(seed, 5)), b: b, now: time.Now(), version: 11 + int16(seed%2)*4,
			asks: map[fetchKey]fetchAsk{}, changed: map[fetchKey]bool{}, view: map[fetchKey]told{}}
		for range 400 {
			if r.step(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		polls += int(b.stats.byKey[keyFetch].count.Load())
		resets += r.resets
		if n := b.sessions; len(n.byID) > 2 || n.bytes < 0 || n.parts < 0 {
			t.Errorf("%d sessions of %d bytes are left", len(n.byID), n.bytes)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if resets == 0 {
		t.Error("no session ever ended")
	}
	t.Logf("%d fetches, %d sessions ended", polls, resets)
}

func TestFetchSessionErrors(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.createTopic("t")
	fetch := func(version int16, id, epoch int32, req *kmsg.FetchRequest) *kmsg.FetchResponse {
		t.Helper()
		req.SessionID, req.SessionEpoch = id, epoch
		w.send(req, version, 1)
		resp := kmsg.NewPtrFetchResponse()
		resp.SetVersion(version)
		w.receive(resp)
		return resp
	}
	expect := func(resp *kmsg.FetchResponse, want *kerr.Error) {
		t.Helper()
		if resp.ErrorCode != want.Code || resp.SessionID != 0 || len(resp.Topics) != 0 {
			t.Errorf("got %v, session %d, %d topics; want %v alone", kerr.ErrorForCode(resp.ErrorCode), resp.SessionID, len(resp.Topics), want)
		}
	}
	id := fetch(11, 0, 0, fetchRequest("t", 0, 0, 0)).SessionID
	if id <= 0 {
		t.Fatalf("session %d", id)
	}
	nothing := kmsg.NewPtrFetchRequest
	expect(fetch(11, id, 2, nothing()), kerr.InvalidFetchSessionEpoch)
	expect(fetch(11, id+1, 1, nothing()), kerr.FetchSessionIDNotFound)
	expect(fetch(13, id, 1, nothing()), kerr.FetchSessionTopicIDError)
	if resp := fetch(11, id, 1, nothing()); resp.ErrorCode != 0 || resp.SessionID != id || len(resp.Topics) != 0 {
		t.Errorf("nothing new: %+v", resp)
	}
	if resp := fetch(11, id, -1, fetchRequest("t", 0, 0, 0)); resp.ErrorCode != 0 || resp.SessionID != 0 || len(resp.Topics) != 1 {
		t.Errorf("a full fetch that ends the session: %+v", resp)
	}
	expect(fetch(11, id, 2, nothing()), kerr.FetchSessionIDNotFound)
	id = fetch(11, 0, 0, fetchRequest("t", 0, 0, 0)).SessionID
	forget := kmsg.NewPtrFetchRequest()
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0}}}
	if resp := fetch(11, id, 1, forget); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Errorf("a session that has lost its last partition: %+v", resp)
	}
	if n := b.Stats().FetchSessions; n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestFetchSessionsTakeTurns: of partitions that all have more than an answer holds, each is served.
func TestFetchSessionsTakeTurns(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	names := []string{"a", "b", "c"}
	req := kmsg.NewPtrFetchRequest()
	one := batch("0123456789")
	req.MaxBytes, req.SessionEpoch = int32(len(one)), sessionInitial
	for _, name := range names {
		w.createTopic(name)
		w.produce(name, -1, one)
		req.Topics = append(req.Topics, fetchRequest(name, 0, 0, 0).Topics...)
	}
	served := map[string]int{}
	for range 6 {
		w.send(req, 11, 1)
		resp := kmsg.NewPtrFetchResponse()
		resp.SetVersion(11)
		w.receive(resp)
		each(resp, func(k fetchKey, x told) {
			if x.records != "" {
				served[k.name]++
			}
		})
		epoch := req.SessionEpoch + 1
		req = kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionID, req.SessionEpoch = int32(len(one)), resp.SessionID, epoch
	}
	if served["a"] != 2 || served["b"] != 2 || served["c"] != 2 {
		t.Errorf("served %v", served)
	}
}

func TestFetchSessionEviction(t *testing.T) {
	c := newFetchSessions(1<<40, rand.NewChaCha8([32]byte{}))
	parts := func(n int) (list []*sessionPart) {
		for i := range n {
			list = append(list, &sessionPart{fetchAsk: fetchAsk{fetchKey: fetchKey{index: int32(i)}}})
		}
		return list
	}
	now := time.Now()
	var first *fetchSession
	for i := range maxFetchSessions {
		s := c.create(false, parts(2+i%2), now)
		if s == nil {
			t.Fatalf("session %d is refused", i)
		}
		if i == 0 {
			first = s
		}
	}
	if c.create(false, parts(100), now) != nil {
		t.Error("a young session went for a larger one")
	}
	touch := func(now time.Time) {
		for _, s := range c.byID {
			if s != first {
				c.touch(s, s.size, s.bytes, now)
			}
		}
	}
	now = now.Add(fetchSessionEviction + time.Second)
	touch(now)
	if c.create(false, parts(1), now) == nil || c.get(first.id) != nil {
		t.Error("an idle session stays in the way")
	}
	if c.create(false, parts(2), now) != nil {
		t.Error("an old session went for one that is no larger")
	}
	if c.create(false, parts(3), now) == nil || c.evicted != 2 || len(c.byID) != maxFetchSessions {
		t.Errorf("a smaller old session stays in the way: %d evicted, %d sessions", c.evicted, len(c.byID))
	}
	small := newFetchSessions(20_000, rand.NewChaCha8([32]byte{}))
	s := small.create(false, parts(20), now)
	if s == nil || small.create(false, parts(50), now) != nil {
		t.Error("memory is not bounded")
	}
	if small.touch(s, 100, 40_000, now) {
		t.Error("a session may outgrow the memory")
	}
	small.remove(s.id)
	if small.bytes != 0 || small.parts != 0 {
		t.Errorf("%d bytes, %d partitions are left", small.bytes, small.parts)
	}
}

// TestClientsUseFetchSessions: a client of many topics, which are made again, cut connections, evicted sessions and a broker that
// loses its power; every record of a topic that stays is read once and in order.
func TestClientsUseFetchSessions(t *testing.T) {
	const topics, rounds, perRound = 20, 8, 60
	mem, rng := vfs.NewMem(), rand.New(rand.NewPCG(9, 9))
	cfg := testConfig(t)
	cfg.FS, cfg.Dir, cfg.WALFileBytes = mem, "data", 1<<20
	b := start(t, cfg)
	cfg.Advertise = b.addr
	name := func(i int) string { return fmt.Sprintf("t%02d", i) }
	names := []string{"again"}
	for i := range topics {
		names = append(names, name(i))
	}
	fast := kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })
	producer := client(t, b, kgo.RecordDeliveryTimeout(time.Minute), kgo.RetryTimeout(time.Minute), fast, kgo.ProducerLinger(0))
	consumer := client(t, b, kgo.ConsumeTopics(names...), kgo.FetchMaxWait(50*time.Millisecond), fast,
		kgo.MetadataMinAge(10*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	want, got := map[string]int{}, map[string]int{}
	sent := 0
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for round := range rounds {
		for range perRound {
			topic := names[1+rng.IntN(topics)]
			r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, want[topic])}
			if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			want[topic]++
			sent++
		}
		for total(got) < sent {
			fs := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("round %d: read %d of %d", round, total(got), sent)
			}
			fs.EachRecord(func(r *kgo.Record) {
				if r.Topic == "again" {
					return
				}
				if string(r.Value) != fmt.Sprint(got[r.Topic]) {
					t.Fatalf("%s: read %s after %d records", r.Topic, r.Value, got[r.Topic])
				}
				got[r.Topic]++
			})
		}
		if s := b.Stats(); s.FetchSessions == 0 || s.FetchSessionPartitions == 0 {
			t.Fatalf("round %d: the client has no session: %d of %d partitions", round, s.FetchSessions, s.FetchSessionPartitions)
		}
		switch round % 4 {
		case 0: // evicted
			b.sessions.mu.Lock()
			for _, s := range b.sessions.byID {
				b.sessions.drop(s)
			}
			b.sessions.mu.Unlock()
		case 1: // cut
			b.mu.Lock()
			for c := range b.conns {
				c.close(errClosing)
			}
			b.mu.Unlock()
		case 2: // made again
			adm := dialWire(t, b)
			adm.createTopic("again")
			adm.produce("again", -1, batch("x"))
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TopicNames = []string{"again"}
			adm.send(req, 3, 1)
			adm.receive(req.ResponseKind())
		case 3: // power
			b.disconnect()
			cfg.FS = mem.CrashClone(rng)
			b.cut = true
			b.stop()
			mem = cfg.FS.(*vfs.Mem)
			b = start(t, cfg)
		}
	}
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
