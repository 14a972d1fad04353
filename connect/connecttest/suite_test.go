package connecttest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlog/weir/connect"
)

// memorySink keeps records in a map by origin. Each fault breaks one promise of the contract.
type memorySink struct {
	store *memoryStore
	fault string
	next  map[connect.TopicPartition]int64
	told  map[connect.TopicPartition]int64
	held  []connect.Record
}

type memoryStore struct {
	mu   sync.Mutex
	rows map[string]string
	dead bool
}

func (s *memorySink) Assign(_ context.Context, added []connect.Assigned) ([]connect.Start, error) {
	for _, a := range added {
		s.told[a.TopicPartition] = a.Offset
	}
	return nil, nil
}

func (s *memorySink) Revoke(_ context.Context, gone []connect.TopicPartition) error {
	for _, tp := range gone {
		delete(s.next, tp)
	}
	return nil
}

func (s *memorySink) Put(_ context.Context, records []connect.Record) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.dead {
		if s.fault == "fails when dead" {
			return fmt.Errorf("dead")
		}
		return connect.Retry(0, fmt.Errorf("dead"))
	}
	if s.fault == "keeps memory" {
		s.held = append(s.held, records...)
	} else {
		for i := range records {
			if strings.Contains(text(&records[i]), "poison") {
				return connect.BadRecord(i, fmt.Errorf("poison"))
			}
			s.write(&records[i])
		}
	}
	for _, r := range records {
		s.next[connect.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] = r.Origin.Offset + 1
	}
	return nil
}

func text(r *connect.Record) string {
	b, _, _ := r.Value.Encoded()
	return string(b)
}

func (s *memorySink) write(r *connect.Record) {
	id := fmt.Sprint(r.Origin)
	if s.fault == "adds on replay" {
		id = fmt.Sprint(len(s.store.rows))
	}
	s.store.rows[id] = text(r)
}

func (s *memorySink) Flush(context.Context, []connect.Committed) (connect.Flushed, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for i := range s.held {
		s.write(&s.held[i])
	}
	s.held = nil
	var f connect.Flushed
	for tp, next := range s.next {
		if s.fault == "durable too early" {
			next += 5
		}
		if next != s.told[tp] {
			s.told[tp] = next
			f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next})
		}
	}
	return f, nil
}

func (s *memorySink) Stats() connect.Stats        { return connect.Stats{Progress: 1} }
func (s *memorySink) Close(context.Context) error { return nil }

func memorySuite(fault string) Suite {
	var store *memoryStore
	return Suite{
		Connector: connect.Connector{
			Name: "memory", Version: "1", Doc: "keeps records", Lazy: true,
			Fields: []connect.Field{{Name: "size", Type: connect.TypeInt, Default: "1", Importance: connect.Low, Doc: "nothing"}},
			Sink: func(context.Context, connect.Task) (connect.SinkTask, error) {
				return &memorySink{store: store, fault: fault, next: map[connect.TopicPartition]int64{}, told: map[connect.TopicPartition]int64{}}, nil
			},
		},
		BadConfigs: map[string]connect.Config{"no number": {"size": "x"}},
		NewSink: func(testing.TB) SinkWorld {
			store = &memoryStore{rows: map[string]string{}}
			mine := store
			set := func(dead bool) { mine.mu.Lock(); mine.dead = dead; mine.mu.Unlock() }
			return SinkWorld{
				Config: connect.Config{"size": "2"},
				Read: func() (out []string) {
					for _, row := range mine.rows {
						out = append(out, row)
					}
					return out
				},
				Want: func(records []connect.Record) (out []string) {
					for i := range records {
						out = append(out, text(&records[i]))
					}
					return out
				},
				Poison: func() connect.Data { return JSON([]byte(`{"poison":1}`)) },
				Stop:   func() { set(true) },
				Start:  func() { set(false) },
			}
		},
	}
}

// TestSuite: a sink that keeps the contract passes.
func TestSuite(t *testing.T) { Run(t, memorySuite("")) }

// probe stands in for a test and notes whether it has failed.
type probe struct {
	testing.TB
	failed bool
}

func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Error(...any)          { p.failed = true }
func (p *probe) Fatalf(string, ...any) { p.failed = true; runtime.Goexit() }
func (p *probe) Fatal(...any)          { p.failed = true; runtime.Goexit() }

// TestSuiteFinds: each broken promise fails the check that is for it.
func TestSuiteFinds(t *testing.T) {
	for fault, check := range map[string]func(*Driver){
		"keeps memory":      checkEverything,
		"adds on replay":    checkReplay,
		"durable too early": checkKills,
		"fails when dead":   Suite{}.checkDeadTarget,
	} {
		for name, pass := range transports() {
			for _, f := range []string{fault, ""} {
				s := memorySuite(f)
				p := &probe{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					d := newDriver(p, s.Connector, s.NewSink(p), pass)
					d.Open()
					check(d)
				}()
				<-done
				if p.failed != (f != "") {
					t.Errorf("%s, fault %q: failed is %v", name, f, p.failed)
				}
			}
		}
	}
}
