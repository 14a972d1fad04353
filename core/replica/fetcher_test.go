package replica

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage"
	"github.com/weirlog/weir/storage/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts answer into testdata")

// TestScripts runs testdata/*.txt: lines without indentation are steps, the indented line below one is what came of it. With -rewrite those are
// written anew; read the difference before you commit it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			s := newScript(t)
			for lines := bufio.NewScanner(strings.NewReader(string(want))); lines.Scan(); {
				line := lines.Text()
				if strings.HasPrefix(line, "\t") {
					continue
				}
				got.WriteString(line + "\n")
				if line != "" && line[0] != '#' {
					if out := s.step(t, line); out != "" {
						got.WriteString("\t" + out + "\n")
					}
				}
			}
			switch {
			case got.String() == string(want):
			case *rewrite:
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s differs; got:\n%s", file, got.String())
			}
		})
	}
}

// script is a fetcher of node 2 from node 1, and its partitions.
type script struct {
	store    *storage.Store
	f        *Fetcher
	parts    map[string]*Partition
	requests []*FetchRequest
	now      time.Time
	ticket   storage.Ticket
}

func newScript(t *testing.T) *script {
	store, err := storage.Open(storage.Options{FS: vfs.NewMem(), Dir: "/data", WALFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{store: store, f: NewFetcher(1, rand.New(rand.NewPCG(1, 1))), parts: make(map[string]*Partition), now: time.UnixMilli(1_700_000_000_000)}
	for i := range int32(2) {
		name := fmt.Sprint("t-", i)
		log, err := store.OpenLog(storage.LogID{Topic: [16]byte{1}, Partition: i}, name, storage.LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s.parts[name] = New(store, log, "t", i, 2)
		s.assign(name, 1, 1)
	}
	return s
}

func (s *script) assign(name string, epoch, leader int32) {
	s.parts[name].Assign(Assignment{Leader: leader, LeaderEpoch: epoch, PartitionEpoch: epoch, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}, s.now)
}

func (s *script) step(t *testing.T, line string) string {
	words := strings.Fields(line)
	args := make(map[string]string)
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	switch words[0] {
	case "set":
		for _, name := range []string{"t-0", "t-1"} {
			switch isIn, isWanted := s.f.parts[s.parts[name]] != nil, slices.Contains(words[1:], name); {
			case isWanted:
				s.ticket = max(s.ticket, s.f.Add(s.parts[name]))
			case isIn:
				s.f.Remove(s.parts[name])
			}
		}
	case "next":
		return s.next()
	case "answer", "fail":
		n := number(t, words[1])
		if n > len(s.requests) {
			return "there is no such request"
		}
		if words[0] == "answer" {
			return s.answer(t, s.requests[n-1], args)
		}
		s.f.Failed(s.requests[n-1], s.now)
	case "commit":
		commit(t, s.store)
		s.f.Synced(s.ticket)
	case "time":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "assign":
		leader := int32(1)
		if args["leader"] != "" {
			leader = int32(number(t, args["leader"]))
		}
		s.assign(words[1], int32(number(t, args["epoch"])), leader)
		if p := s.parts[words[1]]; s.f.parts[p] != nil {
			s.f.Add(p)
		}
	default:
		t.Fatalf("unknown step %q", line)
	}
	return ""
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *script) next() string {
	r, at := s.f.Next(s.now)
	switch {
	case r == nil && at.IsZero():
		return "nothing"
	case r == nil:
		return fmt.Sprintf("in %s", at.Sub(s.now).Round(time.Millisecond))
	}
	s.requests = append(s.requests, r)
	out := fmt.Sprintf("request %d: session %d/%d", len(s.requests), r.Session, r.Epoch)
	for i, p := range r.Partitions {
		a := r.Asks[i]
		out += fmt.Sprintf(", %s-%d epoch %d from %d after epoch %d, durable to %d", p.Topic, p.Index, a.LeaderEpoch, a.Next, a.LastEpoch, a.DurableEnd)
	}
	for _, p := range r.Forgotten {
		out += fmt.Sprintf(", without %s-%d", p.Topic, p.Index)
	}
	return out
}

// answer answers a request: NAME=N is N records of the epoch from where it was asked, NAME=errorCODE[@START], NAME=divergingEPOCH@END.
func (s *script) answer(t *testing.T, r *FetchRequest, args map[string]string) string {
	var answers []PartitionAnswer
	for _, name := range []string{"t-0", "t-1"} {
		value, ok := args[name]
		if !ok {
			continue
		}
		a := PartitionAnswer{Partition: s.parts[name]}
		what, at, _ := strings.Cut(value, "@")
		switch {
		case strings.HasPrefix(what, "error"):
			a.ErrorCode = int16(number(t, what[len("error"):]))
			if at != "" {
				a.Start = int64(number(t, at))
			}
		case strings.HasPrefix(what, "diverging"):
			a.Diverging = &Diverging{int32(number(t, what[len("diverging"):])), int64(number(t, at))}
		default:
			o := s.f.parts[a.Partition]
			if o == nil {
				t.Fatalf("%s isn't followed", name)
			}
			ask := askOf(r, o)
			for i := range number(t, what) {
				b := storage.Batch(record.AppendBatch(nil, []record.Record{{Value: []byte("v")}}, s.now))
				b.SetBaseOffset(ask.Next + int64(i))
				b.SetLeaderEpoch(ask.LeaderEpoch)
				a.Records = append(a.Records, b...)
			}
		}
		answers = append(answers, a)
	}
	code, session := 0, r.Session
	if args["error"] != "" {
		code = number(t, args["error"])
	}
	if args["session"] != "" {
		session = int32(number(t, args["session"]))
	}
	ticket, err := s.f.Answered(r, int16(code), session, answers, s.now)
	if err != nil {
		t.Fatal(err)
	}
	s.ticket = max(s.ticket, ticket)
	var out []string
	for _, a := range answers {
		out = append(out, fmt.Sprintf("%s-%d [%d, %d)", a.Partition.Topic, a.Partition.Index, a.Partition.Log().StartOffset(), a.Partition.Log().EndOffset()))
	}
	return strings.Join(out, ", ")
}
