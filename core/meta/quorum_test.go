package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/storage"
)

func openStore(t *testing.T, dir string) *storage.Store {
	t.Helper()
	s, err := storage.Open(storage.Options{Dir: dir, WALFileBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(t *testing.T, s *storage.Store) {
	t.Helper()
	done, err := s.Commit(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		d()
	}
}

func topicNames(q *Quorum) []string {
	var names []string
	q.View(func(m *Image) {
		for _, t := range m.Topics() {
			names = append(names, t.Name)
		}
	})
	return names
}

func create(i int) Command {
	return Command{CreateTopic: &CreateTopic{ID: ID{byte(i), 1}, Name: fmt.Sprintf("t%d", i), Replicas: [][]int32{{1}}}}
}

func TestCommandsAreAppliedInOrderWhenTheyAreDurable(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	var applied []string
	q, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10, Applied: func(m *Image, c Command, r Result) {
		if c.RegisterBroker != nil {
			return
		}
		if (m.Topic(r.Topic.Name) == nil) != (c.DeleteTopic != nil) {
			t.Error("applied is called before the image has changed")
		}
		applied = append(applied, r.Topic.Name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	q.Propose(Command{RegisterBroker: &RegisterBroker{ID: 1}}, time.Now(), func(Result, error) {})
	var answers []string
	propose := func(c Command) {
		q.Propose(c, time.Now(), func(r Result, err error) {
			switch {
			case errors.Is(err, ErrTopicExists):
				answers = append(answers, "exists")
			case err != nil:
				t.Error(err)
			default:
				answers = append(answers, r.Topic.Name)
			}
		})
	}
	for i := range 5 {
		propose(create(i))
	}
	propose(create(3))
	if len(answers) != 0 || len(topicNames(q)) != 0 {
		t.Fatalf("before the sync: answers %v, topics %v", answers, topicNames(q))
	}
	commit(t, s)
	if want := []string{"t0", "t1", "t2", "t3", "t4", "exists"}; !slices.Equal(answers, want) || !slices.Equal(applied, want[:5]) {
		t.Errorf("answers %v, applied %v", answers, applied)
	}
	q.Propose(Command{DeleteTopic: &DeleteTopic{ID: ID{1, 1}}}, time.Now(), func(_ Result, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	commit(t, s)
	before := topicNames(q)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, dir)
	defer s.Close()
	q2, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := topicNames(q2); !slices.Equal(got, before) || len(got) != 4 {
		t.Errorf("after a restart %v, before %v", got, before)
	}
	if q2.leader != (leader{1, q.leader.term + 1}) {
		t.Errorf("leader %+v after %+v", q2.leader, q.leader)
	}
}

func TestATooLargeCommandIsRefused(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	q, err := Open(Options{Store: s, MaxCommandBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	q.Propose(Command{InitCluster: &InitCluster{ClusterID: strings.Repeat("x", 200)}}, time.Now(), func(_ Result, err error) {
		if calls++; !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
	q.Propose(Command{}, time.Now(), func(_ Result, err error) {
		if calls++; !errors.Is(err, ErrVersion) {
			t.Error(err)
		}
	})
	if calls != 2 {
		t.Errorf("%d answers", calls)
	}
}

// TestProposalsOfManyGoroutines beside the store's own loops: all are answered, in an order that the log keeps.
func TestProposalsOfManyGoroutines(t *testing.T) {
	s := openStore(t, t.TempDir())
	q, err := Open(Options{Store: s, MaxCommandBytes: 1 << 10, SnapshotEvery: 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	const proposers, each = 4, 50
	var wait sync.WaitGroup
	for range proposers {
		wait.Go(func() {
			last := int64(-1)
			for range each {
				answer := make(chan int64, 1) // done may run before Propose returns, and must not block
				q.Propose(Command{AllocateProducerIDs: &AllocateProducerIDs{Broker: 1, Count: 1}}, time.Now(), func(r Result, err error) {
					if err != nil {
						t.Error(err)
					}
					answer <- r.FirstProducerID
				})
				q.Tick(time.Now())
				_ = q.Status()
				if id := <-answer; id <= last {
					t.Errorf("id %d after %d", id, last)
				} else {
					last = id
				}
			}
		})
	}
	wait.Wait()
	q.View(func(m *Image) {
		if m.NextProducerID() != proposers*each {
			t.Errorf("%d ids were given", m.NextProducerID())
		}
	})
	if q.log.base().Index == 1 {
		t.Error("there was no snapshot")
	}
	cancel()
	if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
