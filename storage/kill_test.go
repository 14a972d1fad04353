package storage

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// killEnv names the data folder to the child process of TestKill.
const killEnv = "WEIR_TEST_KILL_DIR"

func killOptions(dir string) Options {
	return Options{Dir: dir, WALFileBytes: 256 << 10, TailBytes: 128 << 10, RoundBytes: 64 << 10, FlushInterval: 20 * time.Millisecond}
}

// TestKill kills a process that appends, again and again, on the real disk: what it said was durable must be there.
func TestKill(t *testing.T) {
	if dir := os.Getenv(killEnv); dir != "" {
		appendUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 5))
	var said [3]int64
	for range 6 {
		lines := 50 + rng.IntN(1500)
		child := exec.Command(os.Args[0], "-test.run=^TestKill$")
		child.Env = append(os.Environ(), killEnv+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(out)
		for n := 0; n < lines && in.Scan(); n++ {
			noteSaid(t, in.Text(), &said)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for in.Scan() { // said before it died
			noteSaid(t, in.Text(), &said)
		}
		_ = child.Wait() // "signal: killed"
		checkKilled(t, dir, said)
	}
	if said[0]+said[1]+said[2] < 300 {
		t.Fatalf("the children said only %v", said)
	}
}

// noteSaid reads "log end".
func noteSaid(t *testing.T, line string, said *[3]int64) {
	var log int
	var end int64
	if n, err := fmt.Sscan(line, &log, &end); n != 2 || err != nil || log < 0 || log > 2 {
		t.Fatalf("child says %q", line)
	}
	said[log] = max(said[log], end)
}

// checkKilled opens the folder and looks at every record: its value tells its offset.
func checkKilled(t *testing.T, dir string, said [3]int64) {
	t.Helper()
	s, err := Open(killOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	for n, end := range said {
		l := s.Log(testID(byte(n)))
		if l == nil {
			if end > 0 {
				t.Fatalf("log %d is missing, %d was said", n, end)
			}
			continue
		}
		if l.EndOffset() < end {
			t.Fatalf("log %d ends at %d, %d was said to be durable", n, l.EndOffset(), end)
		}
		want := int64(0)
		for data := readAll(t, l); len(data) > 0; want++ {
			b, err := ParseBatch(data)
			if err != nil {
				t.Fatal(err)
			}
			if b.BaseOffset() != want || b.BaseTimestamp() != want {
				t.Fatalf("log %d: batch %d at %d, want %d", n, b.BaseTimestamp(), b.BaseOffset(), want)
			}
			data = data[len(b):]
		}
		if want != l.EndOffset() {
			t.Fatalf("log %d: %d records of %d", n, want, l.EndOffset())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// appendUntilKilled is the child: it says what is durable, and nothing else.
func appendUntilKilled(t *testing.T, dir string) {
	s, err := Open(killOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
	done := make(chan struct{})
	for n := range 3 {
		l, err := s.OpenLog(testID(byte(n)), "kill-"+strconv.Itoa(n), LogConfig{SegmentBytes: 50 << 10})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for end := l.EndOffset(); ; end++ {
				appendDurably(t, s, l, testBatch{timestamp: end, valueBytes: 200}.build())
				if _, err := fmt.Fprintf(os.Stdout, "%d %d\n", n, end+1); err != nil {
					close(done)
					return
				}
			}
		}()
	}
	select {
	case err := <-ran:
		t.Fatal(err)
	case <-done:
	}
}
