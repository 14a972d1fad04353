package core

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wideTopic makes a topic of many partitions.
func (w *wire) wideTopic(name string, partitions int32) {
	w.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 20_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	w.send(req, 5, 0)
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.SetVersion(5)
	w.receive(resp)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		w.t.Fatalf("create %s: %v", name, kerr.ErrorForCode(code))
	}
}

// wideFetch asks for the first partitions of a topic from offset 0, and waits.
func wideFetch(name string, partitions int32) *kmsg.FetchRequest {
	req := fetchRequest(name, 0, 1, 50_000)
	parts := &req.Topics[0].Partitions
	for i := int32(1); i < partitions; i++ {
		p := (*parts)[0]
		p.Partition = i
		*parts = append(*parts, p)
	}
	return req
}

// until waits for what connections do on their own goroutines.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// TestFetchesThatWaitAreBounded: those for which there is no memory are answered at once, others are not disturbed, and a
// client that goes takes its fetch with it.
func TestFetchesThatWaitAreBounded(t *testing.T) {
	const partitions, clients = 200, 20
	cfg := testConfig(t)
	cfg.MemoryBytes = 1 << 20
	b := start(t, cfg)
	good := dialWire(t, b)
	good.wideTopic("wide", partitions)
	good.createTopic("t")
	weight := int64(requestWeight + partitions*fetchPartWeight)
	fit := b.waits.limit / weight
	if fit < 2 || fit > clients/2 {
		t.Fatalf("%d fetches fit: the test shows nothing", fit)
	}
	var all []*wire
	for i := range clients {
		w := dialWire(t, b)
		w.send(wideFetch("wide", partitions), 11, int32(i))
		all = append(all, w)
		if int64(i) < fit {
			until(t, "the fetch waits", func() bool { return b.waits.used.Load() == int64(i+1)*weight })
			continue
		}
		if p, _ := w.fetched(11); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
			t.Errorf("a fetch that may not wait: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
		}
	}
	if used := b.waits.used.Load(); used != fit*weight {
		t.Errorf("%d bytes for fetches that wait, want %d", used, fit*weight)
	}
	until(t, "only fetches that wait hold memory", func() bool { return b.heavy.inUse()+b.light.inUse()+b.budget.inUse() == 0 })
	if p := good.produce("t", -1, batch("x")); p.ErrorCode != 0 {
		t.Errorf("produce beside them: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if p := good.produce("wide", -1, batch("x")); p.ErrorCode != 0 {
		t.Errorf("produce to what they wait for: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if p, _ := all[0].fetched(11); len(p.RecordBatches) == 0 {
		t.Error("the first fetch is answered without the record that it waited for")
	}
	until(t, "answered fetches hold nothing", func() bool { return b.waits.used.Load() == 0 })
	for _, w := range all {
		w.send(wideFetch("t", 1), 11, 1)
		w.nc.Close()
	}
	until(t, "nothing is held for those who have gone", func() bool { return b.waits.used.Load()+b.heavy.inUse()+b.light.inUse() == 0 })
}

// TestASessionsFetchWeighsItsPartitions: its frame is short, and what it makes is not.
func TestASessionsFetchWeighsItsPartitions(t *testing.T) {
	const partitions = 300
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.wideTopic("wide", partitions)
	first := wideFetch("wide", partitions)
	first.MaxWaitMillis, first.SessionEpoch = 0, sessionInitial
	w.send(first, 11, 1)
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(11)
	w.receive(resp)
	next := fetchRequest("wide", 0, 1, 50_000)
	next.Topics, next.SessionID, next.SessionEpoch = nil, resp.SessionID, 1
	w.send(next, 11, 2)
	until(t, "it waits with the weight of its session", func() bool {
		return b.waits.used.Load() == requestWeight+partitions*fetchPartWeight
	})
	w.nc.Close()
	until(t, "it has gone with its client", func() bool { return b.waits.used.Load() == 0 })
}

// TestAHeavyRequestDoesNotStandBehindALongPoll: the fetch before it is answered, so that its memory is soon free again.
func TestAHeavyRequestDoesNotStandBehindALongPoll(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.wideTopic("wide", 1000)
	w.send(wideFetch("wide", 1), 11, 1)
	until(t, "the fetch waits", func() bool { return b.waits.used.Load() > 0 })
	w.send(kmsg.NewPtrMetadataRequest(), 8, 2)
	if _, correlation := w.fetched(11); correlation != 1 {
		t.Errorf("answered first is request %d", correlation)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(8)
	if correlation := w.receive(resp); correlation != 2 || len(resp.Topics[0].Partitions) != 1000 {
		t.Errorf("answered next is request %d", correlation)
	}
	until(t, "nothing is held", func() bool { return b.waits.used.Load()+b.heavy.inUse()+b.light.inUse() == 0 })
}

// TestRepeatedNamesAreAnsweredOnce: a short request can't ask for a large topic a thousand times.
func TestRepeatedNamesAreAnsweredOnce(t *testing.T) {
	b := start(t, testConfig(t))
	w := dialWire(t, b)
	w.wideTopic("wide", 100)
	req := kmsg.NewPtrMetadataRequest()
	name := "wide"
	configs := kmsg.NewPtrDescribeConfigsRequest()
	for range 1000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
		configs.Resources = append(configs.Resources, resource)
	}
	w.send(req, 8, 1)
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(8)
	if w.receive(resp); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 100 {
		t.Errorf("%d topics in the answer", len(resp.Topics))
	}
	w.send(configs, 1, 2)
	described := kmsg.NewPtrDescribeConfigsResponse()
	described.SetVersion(1)
	if w.receive(described); len(described.Resources) != 1 || len(described.Resources[0].Configs) == 0 {
		t.Errorf("%d resources in the answer", len(described.Resources))
	}
}

// TestAStalledFrameMakesWay: who has begun a large frame and doesn't go on loses its connection when others need the memory.
func TestAStalledFrameMakesWay(t *testing.T) {
	cfg := Default(t.TempDir()) // its log isn't the test's: the warning is expected
	cfg.MemoryBytes, cfg.WALFileBytes = 1<<20, 8<<20
	b := start(t, cfg)
	good := dialWire(t, b)
	good.createTopic("t")
	var stalled []*wire
	for range 3 {
		w := dialWire(t, b)
		head := binary.BigEndian.AppendUint32(nil, 340_000)
		if _, err := w.nc.Write(append(head, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff)); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, w)
	}
	until(t, "they hold nearly everything", func() bool { return b.budget.inUse() == 3*340_000 })
	if p := good.produce("t", -1, batch(strings.Repeat("x", 100_000))); p.ErrorCode != 0 {
		t.Fatalf("produce beside them: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	left := b.budget.inUse()
	if left != 2*340_000 {
		t.Errorf("%d bytes are held, want those of two: one of three was enough", left)
	}
	for _, w := range stalled {
		w.nc.Close()
	}
	until(t, "nothing is held", func() bool { return b.budget.inUse() == 0 })
}

// TestClaimsThatMoveStay: only those that stand still go, and as few as are needed.
func TestClaimsThatMoveStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1000)
		never := func() bool { return false }
		ended := map[string]int{}
		claimOf := func(name string, n int64) *claim {
			c := &claim{grace: stallGrace}
			c.end = func() {
				ended[name]++
				go c.release()
			}
			if err := b.acquire(n, c, never); err != nil {
				t.Fatal(err)
			}
			return c
		}
		moving := claimOf("moving", 400)
		claimOf("small", 100)
		claimOf("large", 500)
		go func() {
			for range 20 {
				time.Sleep(time.Second)
				moving.moved.Add(2 * leastBytesPerSec)
			}
		}()
		time.Sleep(10 * time.Second)
		if len(ended) != 0 {
			t.Fatalf("nobody waited, and ended are %v", ended)
		}
		if err := b.acquire(300, nil, never); err != nil {
			t.Fatal(err)
		}
		if len(ended) != 1 || ended["large"] != 1 {
			t.Errorf("ended are %v, want the large one", ended)
		}
		if err := b.acquire(250, nil, never); err != nil {
			t.Fatal(err)
		}
		if len(ended) != 2 || ended["small"] != 1 {
			t.Errorf("ended are %v, want the small one too", ended)
		}
		time.Sleep(30 * time.Second)
		waiting := &claim{grace: turnGrace, end: func() {}}
		if err := b.acquire(50, waiting, never); err != nil {
			t.Fatal(err)
		}
		time.Sleep(turnGrace / 2)
		still := func(want int) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			if got := len(b.stalled(1 << 30)); got != want {
				t.Errorf("%d claims stand still, want %d", got, want)
			}
		}
		moving.moved.Add(1 << 30)
		still(0)
		waiting.turn()
		time.Sleep(stallGrace + time.Second)
		still(1)
	})
}

// TestALineIsKept: in a fair budget a large request isn't passed by, and who gives up lets the next one go on.
func TestALineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		b.isFair = true
		never := func() bool { return false }
		first := &claim{end: func() {}}
		if err := b.acquire(60, first, never); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		got := make(chan string, 3)
		large := &claim{end: func() {}}
		wait := func(name string, n int64, c *claim, stop func() bool) {
			if err := b.acquire(n, c, stop); err != nil {
				name = "gave up: " + name
			}
			got <- name
		}
		go wait("large", 1000, large, never)
		synctest.Wait()
		go wait("middle", 10, nil, func() bool {
			select {
			case <-gone:
				return true
			default:
				return false
			}
		})
		synctest.Wait()
		go wait("last", 40, nil, never)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("%s passed by", <-got)
		}
		close(gone)
		b.wake()
		if name := <-got; name != "gave up: middle" {
			t.Fatalf("first is %s", name)
		}
		first.release()
		if name := <-got; name != "large" {
			t.Fatalf("next is %s", name)
		}
		large.release()
		if name := <-got; name != "last" || b.inUse() != 40 {
			t.Fatalf("last is %s, %d in use", name, b.inUse())
		}
	})
}
