package core

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/storage"
)

func TestTimersFireInOrder(t *testing.T) {
	ts := newTimers()
	base := time.Unix(1000, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	var fired []int
	var all []*timer
	for _, i := range rng.Perm(100) {
		all = append(all, ts.at(base.Add(time.Duration(i)*time.Second), func(time.Time) { fired = append(fired, i) }))
	}
	stopped := all[13]
	if !ts.stop(stopped) || ts.stop(stopped) {
		t.Fatal("stop must report true once")
	}
	next := ts.step(base.Add(49 * time.Second))
	if want := base.Add(50 * time.Second); !next.Equal(want) && !stopped.when.Equal(want) {
		t.Errorf("next deadline %v, want %v", next, want)
	}
	ts.step(base.Add(time.Hour))
	if len(fired) != 99 || !slices.IsSorted(fired) {
		t.Errorf("fired %v", fired)
	}
	if next := ts.step(base.Add(time.Hour)); !next.IsZero() {
		t.Errorf("an empty queue has the deadline %v", next)
	}
}

func TestTimersWakeForAnEarlierDeadline(t *testing.T) {
	ts := newTimers()
	ts.at(time.Unix(100, 0), func(time.Time) {})
	<-ts.wake
	ts.at(time.Unix(200, 0), func(time.Time) {})
	select {
	case <-ts.wake:
		t.Error("woken for a later deadline")
	default:
	}
	ts.at(time.Unix(50, 0), func(time.Time) {})
	<-ts.wake
}

func TestBudgetBlocksAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		never := func() bool { return false }
		if err := b.acquire(60, nil, never); err != nil {
			t.Fatal(err)
		}
		var got []string
		var mu sync.Mutex
		wait := func(name string, n int64, stop func() bool) {
			err := b.acquire(n, nil, stop)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				name += ": " + err.Error()
			}
			got = append(got, name)
		}
		go wait("fits", 40, never)
		synctest.Wait()
		go wait("huge", 1000, never)
		gone := false
		go wait("gone", 50, func() bool { mu.Lock(); defer mu.Unlock(); return gone })
		synctest.Wait()
		if want := []string{"fits"}; !slices.Equal(got, want) {
			t.Fatalf("admitted %v", got)
		}
		mu.Lock()
		gone = true
		mu.Unlock()
		b.wake()
		synctest.Wait()
		if len(got) != 2 || !strings.HasPrefix(got[1], "gone: ") {
			t.Fatalf("admitted %v", got)
		}
		b.put(frame{bytes: b.get(60), charge: 60}, true)
		b.put(frame{bytes: b.get(40), charge: 40}, true)
		synctest.Wait()
		if len(got) != 3 || got[2] != "huge" || b.inUse() != 1000 {
			t.Fatalf("admitted %v, %d in use", got, b.inUse())
		}
	})
}

func TestBudgetRecyclesBySize(t *testing.T) {
	b := newBudget(1 << 30)
	for _, n := range []int{10, 4095, 4096, 4097, 1 << 20, 1<<20 + 1} {
		f := frame{bytes: b.get(n)}
		if len(f.bytes) != n {
			t.Errorf("get(%d) has %d bytes", n, len(f.bytes))
		}
		b.put(f, true)
		if again := b.get(n); len(again) != n {
			t.Errorf("get(%d) after put has %d bytes", n, len(again))
		}
	}
}

// A frame comes back to its own class, whose size is what is wanted and at most a quarter more.
func TestBudgetClasses(t *testing.T) {
	last := -1
	for n := 1<<(smallestClass-1) + 1; n <= 1<<largestClass; n += 1 + n/1000 {
		class, size, ok := classOf(n)
		if !ok || size < n || n > 1<<smallestClass && size-n > n/classSteps || class < last {
			t.Fatalf("classOf(%d) is %d, %d, %v after class %d", n, class, size, ok, last)
		}
		if again, sameSize, ok := classOf(size); !ok || again != class || sameSize != size {
			t.Fatalf("a frame of %d bytes for %d is put to class %d, not %d", size, n, again, class)
		}
		last = class
	}
	if class, size, _ := classOf(1 << largestClass); class != len(budget{}.classes)-1 || size != 1<<largestClass {
		t.Errorf("the largest frame, %d bytes, is of class %d of %d", size, class, len(budget{}.classes))
	}
	for _, n := range []int{0, 1, 1 << (smallestClass - 1), 1<<largestClass + 1} {
		if _, _, ok := classOf(n); ok {
			t.Errorf("a frame of %d bytes is recycled", n)
		}
	}
}

func TestPipeCarriesEverything(t *testing.T) {
	client, server := newPipe("127.0.0.1:1")
	sent := make([]byte, 5<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(sent)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+int(rng.Uint64()%300_000))
			if _, err := client.Write(rest[:n]); err != nil {
				t.Error(err)
				break
			}
			rest = rest[n:]
		}
		client.Close()
	}()
	got, err := io.ReadAll(server)
	if err != nil || !slices.Equal(got, sent) {
		t.Fatalf("read %d of %d bytes, %v", len(got), len(sent), err)
	}
	if _, err := server.Write([]byte("x")); err == nil {
		t.Error("writing to a closed pipe succeeds")
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from the closed end: %v", err)
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPipe("127.0.0.1:1")
		_ = client.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		_ = client.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := client.Write(make([]byte, pipeLimitBytes+1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n != pipeLimitBytes {
			t.Errorf("write: %d, %v", n, err)
		}
		_ = server.Close()
		_ = client.Close()
	})
}

func TestTopicConfigs(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"retention.ms", "1000", ""},
		{"retention.ms", "-1", ""},
		{"retention.ms", "-2", "out of range"},
		{"retention.ms", "soon", "not a whole number"},
		{"retention.mss", "1", "did you mean retention.ms?"},
		{"cleanup.policy", "compact,delete", ""},
		{"cleanup.policy", "compact, delete", ""},
		{"cleanup.policy", "shred", `"shred" is none of delete, compact`},
		{"preallocate", "yes", "neither true nor false"},
		{"min.cleanable.dirty.ratio", "1.5", "not a number from 0 to 1"},
		{"min.cleanable.dirty.ratio", "NaN", "not a number from 0 to 1"},
		{"segment.bytes", "2147483648", "out of range"},
		{"max.message.bytes", "0", ""},
	} {
		err := checkTopicConfig(tc.name, tc.value)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s=%s: %v, want %q", tc.name, tc.value, err, tc.want)
		}
		if err != nil && code(err) != kerr.InvalidConfig.Code {
			t.Errorf("%s=%s: code %d", tc.name, tc.value, code(err))
		}
	}
	for _, key := range topicKeys() {
		if key.def != "" {
			if err := key.check(key.def); err != nil {
				t.Errorf("default of %s: %v", key.name, err)
			}
		}
	}
}

func TestTopicConfigsReachStorage(t *testing.T) {
	defaults := TopicDefaults{"retention.ms": "5000", "segment.bytes": "1000000"}
	got := defaults.with(map[string]string{
		"segment.bytes": "2000000", "cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime",
		"max.message.bytes": "99", "segment.ms": "9223372036854775807",
	}).log()
	if got.Retention != 5*time.Second || got.SegmentBytes != 2_000_000 || got.MaxMessageBytes != 99 || got.Segment <= 0 {
		t.Errorf("%+v", got)
	}
	if got.Cleanup != storage.CleanupCompact|storage.CleanupDelete || got.TimestampType != storage.LogAppendTime {
		t.Errorf("%+v", got)
	}
}

func TestEveryErrorHasItsCode(t *testing.T) {
	for _, row := range codes() {
		if got := code(errors.Join(errors.New("outer"), row.err)); got != row.code.Code {
			t.Errorf("%v: code %d, want %d", row.err, got, row.code.Code)
		}
	}
	if code(errors.New("anything")) != kerr.UnknownServerError.Code || code(nil) != 0 {
		t.Error("unknown or nil error")
	}
}

func TestTopicNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "A.b_c-9": true, strings.Repeat("x", 249): true, strings.Repeat("x", 250): false,
		"": false, ".": false, "..": false, "...": true, "a/b": false, "ä": false, "a b": false, "a\x00": false,
	} {
		if err := checkTopicName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	c := Default("")
	c.NodeID, c.MemoryBytes, c.Advertise, c.Topic = -1, 1, "nowhere", TopicDefaults{"retention": "1"}
	err := c.Validate()
	for _, want := range []string{"log.dirs", "node.id", "memory", "advertised.listeners", "retention"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: doesn't say %s", err, want)
		}
	}
	if ok := Default("x"); ok.Validate() != nil {
		t.Errorf("defaults: %v", ok.Validate())
	}
}

func TestDialOfAnotherAddressIsTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b := &Broker{cfg: Config{Advertise: "127.0.0.1:1"}}
	nc, err := b.Dial(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, ok := nc.(*net.TCPConn); !ok {
		t.Errorf("got %T", nc)
	}
}

func TestSeldomSaysWhatItLeftOut(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	var s seldom
	now := time.Unix(1000, 0)
	for i := range 10 {
		s.say(log, slog.LevelWarn, now.Add(time.Duration(i)*time.Millisecond), "again")
	}
	s.say(log, slog.LevelError, now.Add(2*seldomEvery), "again")
	if got := out.String(); strings.Count(got, "again") != 2 || !strings.Contains(got, "unsaid=9") || !strings.Contains(got, "level=ERROR") {
		t.Errorf("said:\n%s", got)
	}
}
