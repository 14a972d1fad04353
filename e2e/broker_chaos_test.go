package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// chaosSeed makes a scenario's randomness and prints what repeats it.
func chaosSeed(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// place is where a record was acknowledged.
type place struct {
	partition int32
	offset    int64
}

// acknowledged is what producers were told.
type acknowledged struct {
	mu     sync.Mutex
	values map[place]string
	failed []error
}

// produceUntil sends numbered records of one idempotent producer until ctx ends, and waits for all of them.
func (a *acknowledged) produceUntil(ctx context.Context, t *testing.T, addr, topic string, producer int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(50), kgo.ProducerLinger(0))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	all := context.WithoutCancel(ctx)
	for i := 0; ctx.Err() == nil; i++ {
		value := fmt.Sprintf("%d-%d", producer, i)
		cl.Produce(all, &kgo.Record{Key: []byte(fmt.Sprint(i % 10)), Value: []byte(value)}, func(r *kgo.Record, err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if err != nil {
				a.failed = append(a.failed, err)
				return
			}
			a.values[place{r.Partition, r.Offset}] = value
		})
	}
	limit, cancel := context.WithTimeout(all, 30*time.Second)
	defer cancel()
	if err := cl.Flush(limit); err != nil {
		t.Errorf("producer %d: not all was answered: %v", producer, err)
	}
}

// TestIdempotentProducersSurviveKills: under kills at random moments every acknowledged record is at the offset that was
// acknowledged, none is there twice, and each producer's order by key is kept.
func TestIdempotentProducersSurviveKills(t *testing.T) {
	n := startNode(t, shared(t), "--set", "broker.log.segment.bytes=1048576")
	rng := chaosSeed(t)
	if out, err := n.weir("topic", "create", "chaos", "--partitions", "3"); err != nil {
		t.Fatal(out)
	}
	acks := acknowledged{values: map[place]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Add(1)
		go func() {
			defer producers.Done()
			acks.produceUntil(ctx, t, n.kafka(), "chaos", p)
		}()
	}
	for range 6 {
		time.Sleep(time.Duration(50+rng.IntN(900)) * time.Millisecond) // the moment of the kill
		n.kill()
		n.start()
	}
	stop()
	producers.Wait()
	n.kill()
	n.start()
	if len(acks.failed) > 0 {
		t.Errorf("%d records failed, the first with %v", len(acks.failed), acks.failed[0])
	}
	at, places := map[place]string{}, map[string]place{}
	last := map[string]int{}
	for line := range strings.Lines(n.kcat("", "-q", "-C", "-t", "chaos", "-o", "beginning", "-e", "-f", "%p %o %k %s\n")) {
		var pl place
		var key, value string
		var producer, number int
		if _, err := fmt.Sscanf(line, "%d %d %s %s", &pl.partition, &pl.offset, &key, &value); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if other, twice := places[value]; twice {
			t.Errorf("%s is at %v and at %v", value, other, pl)
		}
		at[pl], places[value] = value, pl
		if _, err := fmt.Sscanf(value, "%d-%d", &producer, &number); err != nil {
			t.Fatalf("a record that nobody sent: %q", line)
		}
		lane := fmt.Sprint(producer, "/", key)
		if before, seen := last[lane]; seen && number < before {
			t.Errorf("%s comes after %d", value, before)
		}
		last[lane] = number
	}
	for pl, value := range acks.values {
		if at[pl] != value {
			t.Errorf("%s was acknowledged at %v, where %q is", value, pl, at[pl])
		}
	}
	t.Logf("%d acknowledged, %d in the log", len(acks.values), len(at))
	if len(acks.values) < 1000 {
		t.Errorf("only %d records were acknowledged", len(acks.values))
	}
}

// hostile is one connection's bytes.
func hostile(rng *rand.Rand, i int) []byte {
	b := make([]byte, 8+rng.IntN(300))
	for j := range b {
		b[j] = byte(rng.UintN(256))
	}
	size := uint32(len(b) - 4)
	switch i % 6 {
	case 0: // a size that never comes
		size = 10 << 20
	case 1:
		size = 1<<32 - 1
	case 2:
		size = 1<<31 - 1
	case 3:
		return append([]byte("GET / HTTP/1.1\r\n\r\n"), b...)
	default: // a known key and version, then anything
		binary.BigEndian.PutUint16(b[4:], uint16(rng.IntN(23)))
		binary.BigEndian.PutUint16(b[6:], uint16(rng.IntN(13)))
	}
	binary.BigEndian.PutUint32(b, size)
	return b
}

// residentMiB is the process's memory as Linux counts it.
func (n *node) residentMiB() int {
	n.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib >> 10
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}

// TestHostileClientsDisturbNobody: garbage, and hundreds of connections that begin a huge request and stall, cost a bounded
// memory; others are served meanwhile, and the connections' resources come back.
func TestHostileClientsDisturbNobody(t *testing.T) {
	n := startNode(t, shared(t), "--set", "node.memory=128M")
	rng := chaosSeed(t)
	n.kcat("before\n", "-P", "-t", "calm")
	for i := range 1500 {
		conn, err := net.Dial("tcp", n.kafka())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(hostile(rng, i)) // the server may have hung up already
		conn.Close()
	}
	var stalled []net.Conn
	for range 300 {
		conn, err := net.Dial("tcp", n.kafka())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		begin := make([]byte, 64<<10)
		binary.BigEndian.PutUint32(begin, 10<<20)
		if _, err := conn.Write(begin); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, conn)
	}
	n.kcat("meanwhile\n", "-P", "-t", "calm", "-X", "message.timeout.ms=15000")
	if got := n.kcat("", "-q", "-C", "-t", "calm", "-o", "beginning", "-e"); got != "before\nmeanwhile\n" {
		t.Errorf("read %q", got)
	}
	if m := n.residentMiB(); m > 256 {
		t.Errorf("%d MiB are in use, with node.memory=128M", m)
	}
	for _, conn := range stalled {
		conn.Close()
	}
	eventually(t, 20*time.Second, func() (bool, string) {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
		return err == nil && len(fds) < 100, fmt.Sprintf("%d files are open, %v", len(fds), err)
	})
	if status, body := n.get(n.console() + "/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	if strings.Contains(n.log(), "panic") {
		t.Error("the log tells of a panic")
	}
}
