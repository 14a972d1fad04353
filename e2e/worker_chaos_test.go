package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWorkersChaos kills, stops, freezes and starts three workers of one group at random while lines are written to files,
// through topics, to files, and while configurations change. In the end everything runs, divided over the three, and every
// line has come through, each at least once and no other. WEIR_E2E_KILLS says how many times something happens,
// WEIR_E2E_SEED what.
func TestWorkersChaos(t *testing.T) {
	kafka := startNode(t, shared(t))
	events, seed := 8, uint64(time.Now().UnixNano())
	if n, err := strconv.Atoi(os.Getenv("WEIR_E2E_KILLS")); err == nil {
		events = n
	}
	if n, err := strconv.ParseUint(os.Getenv("WEIR_E2E_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("WEIR_E2E_SEED=%d", seed)
	c := &workerChaos{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir()}
	for range 3 {
		w := newWorker(t, kafka, "workers")
		w.start()
		c.workers = append(c.workers, w)
	}
	for i := range chaosPipes {
		c.configure(c.workers[i%3], i)
	}
	for range events {
		c.feed()
		c.strike()
	}
	c.feed()
	for _, w := range c.workers {
		if w.cmd == nil {
			w.start()
		}
	}
	for i := range chaosPipes {
		distinctLines(t, c.out(i), c.lines)
	}
	c.settled()
	if c.moves == 0 {
		t.Error("nothing happened")
	}
}

const chaosPipes = 4

// workerChaos is three workers and what runs on them: pipes from a file through a topic to a file.
type workerChaos struct {
	t       *testing.T
	rng     *rand.Rand
	dir     string
	workers []*node
	lines   int // of each pipe
	moves   int
}

func (c *workerChaos) in(pipe int) string {
	return filepath.Join(c.dir, fmt.Sprintf("in-%d.txt", pipe))
}
func (c *workerChaos) out(pipe int) string {
	return filepath.Join(c.dir, fmt.Sprintf("out-%d.txt", pipe))
}

// configure gives a pipe's connectors to a worker, again with a difference that means nothing if they are there already. A worker may
// refuse: its group may be in the middle of something.
func (c *workerChaos) configure(at *node, pipe int) {
	topic := fmt.Sprintf("pipe-%d", pipe)
	note := strconv.FormatUint(c.rng.Uint64(), 36)
	for name, config := range map[string]map[string]string{
		"in-" + topic:  {"connector.class": "file-source", "file": c.in(pipe), "topic": topic, "note": note},
		"out-" + topic: {"connector.class": "file-sink", "file": c.out(pipe), "topics": topic, "tasks.max": "2", "note": note},
	} {
		eventually(c.t, 60*time.Second, func() (bool, string) {
			for _, w := range append([]*node{at}, c.workers...) {
				if w.cmd == nil {
					continue
				}
				if code, body := w.put(name, config); code == http.StatusOK || code == http.StatusCreated {
					return true, ""
				} else if code != http.StatusConflict && code < 500 {
					c.t.Fatalf("a configuration is refused: %d %s", code, body)
				}
			}
			return false, "no worker takes " + name
		})
	}
}

func (c *workerChaos) feed() {
	for i := range chaosPipes {
		appendLines(c.t, c.in(i), c.lines, c.lines+200)
	}
	c.lines += 200
}

// strike lets something happen to one of the workers, not to all at once.
func (c *workerChaos) strike() {
	w := c.workers[c.rng.IntN(len(c.workers))]
	pause := time.Duration(c.rng.IntN(9000)) * time.Millisecond
	c.moves++
	switch c.rng.IntN(4) {
	case 0:
		c.t.Logf("killed for %v", pause)
		w.kill()
		c.wait(pause)
		w.start()
	case 1:
		c.t.Logf("stopped for %v", pause)
		w.stop(20 * time.Second)
		c.wait(pause)
		w.start()
	case 2:
		c.t.Logf("frozen for %v", pause)
		c.signal(w, syscall.SIGSTOP)
		c.wait(pause)
		c.signal(w, syscall.SIGCONT)
	default:
		c.t.Log("configured")
		c.configure(w, c.rng.IntN(chaosPipes))
		c.wait(pause / 4)
	}
}

func (c *workerChaos) signal(w *node, s syscall.Signal) {
	if err := w.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// wait is the length of a fault, not a wait for something.
func (c *workerChaos) wait(d time.Duration) { <-time.After(d) }

// settled waits until every worker tells that all runs, divided over all of them.
func (c *workerChaos) settled() {
	c.t.Helper()
	eventually(c.t, 60*time.Second, func() (bool, string) {
		for _, w := range c.workers {
			at, said := map[string]int{}, ""
			for i := range chaosPipes {
				for _, name := range []string{"in-", "out-"} {
					got := w.status(fmt.Sprintf("%spipe-%d", name, i))
					said += fmt.Sprintf("%+v ", got)
					if want := map[string]int{"in-": 1, "out-": 2}[name]; !got.running(want) {
						return false, said
					}
					for _, task := range got.Tasks {
						at[task.Worker]++
					}
				}
			}
			for _, other := range c.workers {
				if n := at[strings.TrimPrefix(other.connect(), "http://")]; n != 4 { // twelve tasks
					return false, fmt.Sprintf("%d tasks at one of them: %s", n, said)
				}
			}
		}
		return true, ""
	})
}
