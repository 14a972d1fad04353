package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// made is a stored result with two sides of three rounds and a control.
func made() *result {
	r := &result{
		Set: setPeers, Name: "made", Title: "made up", Seconds: wantSeconds, Rounds: wantRounds, Complete: true, NotRun: map[string]string{},
		Sides:   []side{{"weir", kindWeir, nil}, {"kafka", kindKafka, nil}, {"weir again", kindWeir, nil}},
		Pairs:   []pair{{"weir", "kafka"}, {"weir", "weir again"}},
		Machine: machine{Cores: 2, Load: "0.10 0.10 0.10"},
	}
	for round, rates := range [][3]float64{{100, 50, 110}, {120, 40, 100}, {80, 60, 90}} {
		for i, sd := range r.Sides {
			r.Samples = append(r.Samples, sample{Side: sd.Name, Round: round + 1, Verified: "counted", Figures: []figure{
				higher("rate", "rate", "MB/s", rates[i]), lower("p99", "p99", "ms", 10*rates[i]),
			}})
		}
	}
	return r
}

func TestRatioSaysHowMuchBetterWeirIs(t *testing.T) {
	r := made()
	for _, c := range []struct {
		pair pair
		key  string
		want float64
	}{{r.Pairs[0], "rate", 2}, {r.Pairs[0], "p99", 0.5}, {r.Pairs[1], "rate", 1}} {
		for _, f := range r.figures() {
			if f.Key != c.key {
				continue
			}
			if got, ok := r.ratio(c.pair, f); !ok || got != c.want {
				t.Errorf("%v, %s: %v, %v; want %v", c.pair, c.key, got, ok, c.want)
			}
		}
	}
	if _, ok := r.ratio(pair{"weir", "nobody"}, figure{Key: "rate"}); ok {
		t.Error("a side that did not run has a ratio")
	}
	if r.control(r.Pairs[0]) || !r.control(r.Pairs[1]) {
		t.Error("the A/A pair is not told from the others")
	}
}

func TestReportTellsLossesAndWhatDidNotRun(t *testing.T) {
	r := made()
	missing := &result{Set: setPeers, Name: "absent", Title: "absent", Sides: []side{{"kafka", kindKafka, nil}}, NotRun: map[string]string{"kafka": "not run: no jars"}}
	var text, page bytes.Buffer
	writeReport(&text, []*result{r, missing})
	writeHTML(&page, []*result{r, missing})
	for _, want := range []string{"better in 1 and worse or equal in 1", "| made | p99, ms | kafka | 0.50 |", "Not run: absent, kafka: no jars", "| rate (higher is better) | MB/s | 100 [80.0–120] | 50.0 [40.0–60.0] |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
	if !strings.Contains(page.String(), "<svg") || strings.Contains(page.String(), "src=") {
		t.Error("the page has no plot or needs another file")
	}
	if strings.Contains(text.String(), "Short runs") {
		t.Error("a full run on a quiet machine is called short")
	}
	r.Seconds, r.Machine.Load = 4, "7.00 1.00 1.00"
	if note := shortNote([]*result{r}); !strings.Contains(note, "3 × 4 s") || !strings.Contains(note, "load 7.00") {
		t.Errorf("a short run on a busy machine is not told: %q", note)
	}
}

// What was stored is gone on with; another binary or length starts anew.
func TestRunsResume(t *testing.T) {
	b := &bench{store: t.TempDir(), seconds: 5, rounds: 2, binary: "one", out: &bytes.Buffer{}}
	ran, fail := []string{}, true
	sc := scenario{name: "made", sides: []side{{"weir", kindWeir, nil}, {"kafka", kindKafka, nil}}, measure: func(_ context.Context, _ *bench, sd side) (sample, error) {
		if fail && len(ran) == 3 {
			return sample{}, errWrong
		}
		ran = append(ran, sd.Name)
		return sample{Verified: "counted"}, nil
	}}
	if err := b.compare(t.Context(), setPeers, sc); !errors.Is(err, errWrong) {
		t.Fatalf("a wrong answer is no error: %v", err)
	}
	fail = false
	if err := b.compare(t.Context(), setPeers, sc); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, " "); got != "weir kafka weir kafka" {
		t.Errorf("ran %s", got)
	}
	b.resume = true
	if err := b.compare(t.Context(), setPeers, sc); err != nil || len(ran) != 4 {
		t.Errorf("a complete scenario was run again: %v, %v", ran, err)
	}
	b.binary = "two"
	if err := b.compare(t.Context(), setPeers, sc); err != nil || len(ran) != 8 {
		t.Errorf("another binary took over the old figures: %v, %v", ran, err)
	}
}

func TestAPeerThatIsNotThereIsNoWin(t *testing.T) {
	b := &bench{store: t.TempDir(), seconds: 5, rounds: 2, out: &bytes.Buffer{}}
	sc := scenario{name: "made", sides: []side{{"weir", kindWeir, nil}, {"kafka", kindKafka, nil}}, pairs: []pair{{"weir", "kafka"}},
		measure: func(_ context.Context, _ *bench, sd side) (sample, error) {
			if sd.Kind == kindKafka {
				return sample{}, errNotRun
			}
			return sample{Figures: []figure{higher("rate", "rate", "MB/s", 1)}}, nil
		}}
	if err := b.compare(t.Context(), setPeers, sc); err != nil {
		t.Fatal(err)
	}
	r, err := readResult(b.path(setPeers, "made"))
	if err != nil || r.NotRun["kafka"] == "" || len(standings([]*result{r})) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	again := *r
	sc.absent = func(context.Context, *bench) (string, error) { return "not run: not built", nil }
	b.resume, b.binary = true, "another"
	sc.measure = func(_ context.Context, _ *bench, sd side) (sample, error) {
		if sd.Kind == kindWeir {
			t.Error("a weir that can't take part was run")
		}
		return sample{Figures: []figure{higher("rate", "rate", "MB/s", 1)}}, nil
	}
	if err := b.compare(t.Context(), setPeers, sc); err != nil {
		t.Fatal(err)
	}
	if r, err = readResult(b.path(setPeers, "made")); err != nil || r.NotRun["weir"] == "" || len(r.Samples) != 2 || r.Complete || len(again.Samples) == 0 {
		t.Errorf("the peer of a weir that can't take part did not run: %+v, %v", r, err)
	}
	sc.absent, sc.sides = nil, sc.sides[:1]
	sc.measure = func(context.Context, *bench, side) (sample, error) { return sample{}, errNotRun }
	if err := b.compare(t.Context(), setPeers, sc); err == nil {
		t.Error("a weir that does not start is passed over")
	}
}

// The judge must find what is wrong: a record too many, one lost, one changed.
func TestVerifyFindsWrongAnswers(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("NOT TESTED: kcat is not installed, and it is the judge")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	addr, ctx := cluster.ListenAddrs()[0], t.Context()
	if err := createTopic(ctx, addr, 2, 1); err != nil {
		t.Fatal(err)
	}
	l := newLoad(2, 64)
	if _, err := l.flood(ctx, addr, 20*time.Millisecond, math.MaxInt); err != nil {
		t.Fatal(err)
	}
	if due, err := l.openLoop(ctx, addr, 1000, 50*time.Millisecond); err != nil || len(due) == 0 || due[0] <= 0 {
		t.Fatalf("open loop: %v, %v", due, err)
	}
	if _, err := l.oneByOne(ctx, addr, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, n, _, err := l.drain(ctx, addr, 10*time.Second); err != nil || n != l.records() {
		t.Fatalf("read %d of %d: %v", n, l.records(), err)
	}
	if _, err := l.verify(ctx, addr); err != nil {
		t.Fatalf("a right answer is refused: %v", err)
	}
	l.values[1][0][30] ^= 1
	if _, err := l.verify(ctx, addr); !errors.Is(err, errWrong) {
		t.Errorf("a changed record passes: %v", err)
	}
	l.values[1][0][30] ^= 1
	l.acked[0]++
	if _, err := l.verify(ctx, addr); !errors.Is(err, errWrong) {
		t.Errorf("a lost record passes: %v", err)
	}
	l.acked[0]--
	cl, err := producer(addr, 0, bufferBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topicName, Value: []byte("more")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.verify(ctx, addr); !errors.Is(err, errWrong) {
		t.Errorf("a record too many passes: %v", err)
	}
}

// A scenario that fails is told at the end, and the next has its turn.
func TestOneFailureIsNotTheEnd(t *testing.T) {
	b := &bench{store: t.TempDir(), seconds: 5, rounds: 1, out: &bytes.Buffer{}}
	measure := func(err error) func(context.Context, *bench, side) (sample, error) {
		return func(context.Context, *bench, side) (sample, error) { return sample{Verified: "counted"}, err }
	}
	weir := []side{{"weir", kindWeir, nil}}
	catalog := []scenario{{name: "bad", sides: weir, measure: measure(errWrong)}, {name: "good", sides: weir, measure: measure(nil)}}
	if err := b.compareAll(t.Context(), catalog, []string{"bad", "good"}); !errors.Is(err, errWrong) {
		t.Errorf("a wrong answer is no error: %v", err)
	}
	if r, err := readResult(b.path(setPeers, "good")); err != nil || !r.Complete || len(r.Samples) != 1 {
		t.Errorf("the next scenario did not run: %+v, %v", r, err)
	}
}

// A service that can't be had leaves every side out, and says why.
func TestAServiceThatIsNotThereIsNoResult(t *testing.T) {
	b := &bench{store: t.TempDir(), dir: t.TempDir(), peers: t.TempDir(), seconds: 5, rounds: 1, out: &bytes.Buffer{}}
	sc := scenario{name: "made", sides: []side{{"weir", kindWeir, nil}, {"kafka", kindKafka, nil}}, services: []string{"nonsense"},
		measure: func(context.Context, *bench, side) (sample, error) {
			t.Error("measured without its service")
			return sample{}, nil
		}}
	if err := b.compare(t.Context(), setPeers, sc); err != nil {
		t.Fatal(err)
	}
	r, err := readResult(b.path(setPeers, "made"))
	if err != nil || !strings.Contains(r.NotRun["weir"], "nonsense") || r.NotRun["kafka"] == "" || r.Complete {
		t.Errorf("%+v, %v", r, err)
	}
}

// What arrived is told from the id of each row, in any order; one that is foreign or comes twice is a wrong answer.
func TestArrivalsAreOfTheRightRows(t *testing.T) {
	for value, want := range map[string]int{`{"before":null,"after":{"id":17,"account":3}}`: 17, `{"after":null}`: -1, `{"after":{"id":"x","a":1}}`: -1} {
		if got, err := eventID([]byte(value)); err != nil && (want >= 0 || !errors.Is(err, errWrong)) || err == nil && got != want {
			t.Errorf("%s: %d, %v", value, got, err)
		}
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t", "twice"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for topic, ids := range map[string][]int{"t": {12, 10, 11}, "twice": {10, 11, 11}} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprintf(`{"after":{"id":%d,"account":1}}`, id))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		at, err := arrivals(t.Context(), cl, 10, 3)
		switch {
		case topic == "twice" && !errors.Is(err, errWrong):
			t.Errorf("an event that came twice passes: %v", err)
		case topic == "t" && (err != nil || len(at) != 3 || at[0].IsZero() || at[2].IsZero()):
			t.Errorf("%v, %v", at, err)
		}
		cl.Close()
	}
}

// A line's time runs from when it was due until the target holds all of it.
func TestLinesAreTimedFromWhenTheyAreDue(t *testing.T) {
	folder := t.TempDir()
	size, err := writeLines(folder, 10)
	if err != nil || size != 10*lineBytes || len(line(1_000_000)) != lineBytes {
		t.Fatalf("%d bytes, %d a line, %v", size, len(line(1_000_000)), err)
	}
	// The target is the source itself: what is written has arrived.
	if err := os.Link(filepath.Join(folder, "in"), filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	took, err := appendLines(t.Context(), folder, 40*time.Millisecond)
	if err != nil || len(took) != 30 || took[0] < 0 {
		t.Errorf("%d lines of the last three quarters of 40, %v", len(took), err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "out"))
	if err != nil || len(text) != 50*lineBytes {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestNumbersAndPercentiles(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234567: "1,234,567", 999: "999", 12.34: "12.3", 0.5: "0.50", 0.0012: "0.0012"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	var sorted []time.Duration
	for i := range 1000 {
		sorted = append(sorted, time.Duration(i)*time.Millisecond)
	}
	if got := percentile(sorted, 0.99); got != 990 {
		t.Errorf("p99 of 0…999 ms is %v", got)
	}
	if percentile(nil, 0.5) != 0 || median([]float64{1, 2, 4}) != 2 || median([]float64{1, 3}) != 2 {
		t.Error("percentile of nothing, or a median, is wrong")
	}
}

// A record that is due must not wait for anything but its moment: a late clock would count as the server's latency.
func TestTheAlarmIsNeverEarly(t *testing.T) {
	clock, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer clock.file.Close()
	for _, wait := range []time.Duration{-time.Second, 0, time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		until := time.Now().Add(wait)
		if err := clock.wait(until); err != nil || time.Now().Before(until) {
			t.Errorf("%v: back %v before its time, %v", wait, time.Until(until), err)
		}
	}
}

func TestAnswersOnlyFromABroker(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	if answers(addr) {
		t.Error("a closed port answers")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	if !answers(cluster.ListenAddrs()[0]) {
		t.Error("a broker does not answer")
	}
}

func TestEveryNamedScenarioIsThere(t *testing.T) {
	if n, long := len(peerScenarios()), len(longScenarios()); n != 10 || long != 7 {
		t.Errorf("%d scenarios of the hour, %d longer ones", n, long)
	}
	for _, sc := range slices.Concat(peerScenarios(), longScenarios(), limitScenarios()) {
		names := map[string]bool{}
		for _, sd := range sc.sides {
			names[sd.Name] = true
		}
		for _, p := range sc.pairs {
			if !names[p.A] || !names[p.B] {
				t.Errorf("%s compares %v, which are not its sides", sc.name, p)
			}
		}
		if sc.measure == nil && sc.absent == nil {
			t.Errorf("%s does nothing", sc.name)
		}
	}
	b := &bench{store: filepath.Join(t.TempDir(), "store"), seconds: 2, rounds: 1, out: &bytes.Buffer{}}
	if err := b.compareNamed(t.Context(), setPeers, peerScenarios(), "nonsense", namesOf(peerScenarios())); err == nil || !strings.Contains(err.Error(), "produce-1k") {
		t.Errorf("an unknown name is not answered by the known ones: %v", err)
	}
}
