package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/kafka"
)

// errNotOwner: this worker may not write, since others may run its share by now.
var errNotOwner = errors.New("this worker is no member of its group")

// errNotLeader: another worker writes the config topic.
var errNotLeader = errors.New("this worker does not lead its group")

// membership keeps a worker in its group: it runs the machine of member.go against the coordinator and tells the worker
// what it is to run. run is its loop; the other methods may be called from any goroutine.
type membership struct {
	now    func() time.Time
	log    *slog.Logger
	client *kgo.Client
	alone  bool   // a standalone worker: there is no group, and all work is its own
	member member // run's alone
	moved  func() // called when the share has changed
	places func() map[TaskID]place

	mu      sync.Mutex
	wake    chan struct{} // capacity 1: something is said below
	said    said
	share   share
	lost    chan struct{} // closed when what is held is lost
	taken   chan struct{} // closed when it is held
	turned  chan struct{} // closed and replaced when the share changes
	fault   error         // run has ended with
	warning string        // why it is not held yet
}

// said is what the worker tells its membership, until run takes it.
type said struct {
	begin, drained, ending, hurry bool
	configured                    bool
	offset, changed               int64
	work                          workSet
	ran                           bool
	round                         int
	running                       workSet
}

// share is what this worker is to run, and what it knows of the others. Its sets are never changed in place.
type share struct {
	all          bool      // of a standalone worker
	until        time.Time // when it is lost unless it is prolonged; zero: nothing is held
	round        int
	generation   int32
	owned        workSet
	stopping     workSet // was its share, and may end
	configOffset int64   // it is that of the config topic before this
	signed       bool    // requests between workers are signed
	leads        bool
	term         int               // counts how often it has come to lead
	leaderURL    string            // "": not known
	owners       map[TaskID]string // of the leader: the address of who runs what; nil while it is being decided
}

// owns says whether something is this worker's to run.
func (s *share) owns(id TaskID) bool { return s.all || s.owned[id] }

// newMembership makes the membership of a worker; open makes it usable.
func newMembership(cfg *Config, identity string, now func() time.Time, log *slog.Logger, moved func(), places func() map[TaskID]place) *membership {
	if identity == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		identity = hex.EncodeToString(b[:])
	}
	m := &membership{now: now, alone: cfg.Standalone, log: log.With("group", cfg.GroupID), moved: moved, places: places,
		wake: make(chan struct{}, 1), lost: make(chan struct{}), taken: make(chan struct{}), turned: make(chan struct{}),
		member: newMember(memberConfig{group: cfg.GroupID, identity: identity, url: "http://" + cfg.WorkerID + "/", protocols: cfg.Protocols,
			session: cfg.Session, heartbeat: cfg.Heartbeat, rebalance: cfg.Rebalance, sync: cfg.WorkerSync,
			stop: cfg.ShutdownTimeout + cfg.AbandonAfter, wait: cfg.GroupWait}, cfg.RebalanceDelay)}
	if m.alone {
		m.share = share{all: true, leads: true}
	}
	return m
}

// open opens the client; nothing is dialled.
func (m *membership) open(props map[string]string, extra []kgo.Opt) (err error) {
	opts := append([]kgo.Opt{kgo.ClientID(m.member.cfg.clientID()), kgo.MetadataMinAge(metadataMinAge)}, extra...)
	if m.client, _, err = kafka.NewClient(kafka.Overlay(props, ""), kafka.Admin, opts...); err != nil {
		return fmt.Errorf("open the client of the group: %w", err)
	}
	return nil
}

func (m *membership) close() { m.client.Close() }

// clusterID asks the cluster for its id, "" if it has not answered soon.
func (m *membership) clusterID(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, clusterIDLimit)
	defer cancel()
	meta, err := kadm.NewClient(m.client).BrokerMetadata(ctx)
	if err != nil {
		return ""
	}
	return meta.Cluster
}

const clusterIDLimit = 5 * time.Second

// groupAnswer is what came of a call.
type groupAnswer struct {
	call *groupCall
	resp kmsg.Response
	err  error
}

// run is a member until ctx ends, then leaves the group. It returns early only with a fault that trying again won't mend.
func (m *membership) run(ctx context.Context) error {
	if m.alone {
		<-ctx.Done()
		return nil
	}
	answers, ended := make(chan groupAnswer), make(chan struct{})
	out := map[*groupCall]context.CancelFunc{}
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(ended)
	for ctx.Err() == nil && m.member.fault == nil {
		m.listen()
		if m.member.phase == memberLeading {
			m.member.places = m.places()
		}
		now := m.now()
		send, until := m.member.next(now)
		m.publish()
		for _, call := range send {
			limited, cancel := context.WithTimeout(ctx, call.until.Sub(now))
			out[call] = cancel
			calls.Go(func() {
				resp, err := m.client.Request(limited, call.req)
				select {
				case answers <- groupAnswer{call, resp, err}:
				case <-ended:
				}
			})
		}
		for call, cancel := range out {
			if call != m.member.call && call != m.member.beat { // given up
				cancel()
			}
		}
		timer := time.NewTimer(until.Sub(now))
		select {
		case a := <-answers:
			out[a.call]()
			delete(out, a.call)
			if ctx.Err() == nil {
				m.member.answered(m.now(), a.call, a.resp, a.err)
			}
		case <-m.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	for _, cancel := range out {
		cancel()
	}
	m.publish()
	if m.member.fault != nil {
		return m.member.fault
	}
	m.leave(ctx)
	return nil
}

// listen takes what the worker has said.
func (m *membership) listen() {
	m.mu.Lock()
	s := m.said
	m.said = said{}
	m.mu.Unlock()
	if s.configured {
		m.member.configured(s.offset, s.changed, s.work)
	}
	if s.ran {
		m.member.ran(s.round, s.running)
	}
	if s.begin {
		m.member.begin()
	}
	if s.drained {
		m.member.drained()
	}
	if s.hurry {
		m.member.hurry(m.now())
	}
	m.member.ending = m.member.ending || s.ending
}

// say hands something to run.
func (m *membership) say(f func(*said)) {
	m.mu.Lock()
	f(&m.said)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// begin lets the worker join: its config topic was read. drained says that nothing runs any more after a loss, end that no
// more work is to be taken on, hurry that the group is about to change.
func (m *membership) begin()   { m.say(func(s *said) { s.begin = true }) }
func (m *membership) drained() { m.say(func(s *said) { s.drained = true }) }
func (m *membership) end()     { m.say(func(s *said) { s.ending = true }) }
func (m *membership) hurry()   { m.say(func(s *said) { s.hurry = true }) }

// configured tells what was read from the config topic: see member.configured.
func (m *membership) configured(offset, changed int64, work workSet) {
	m.say(func(s *said) { s.configured, s.offset, s.changed, s.work = true, offset, changed, work })
}

// ran tells what runs or still stops after a round's orders were given.
func (m *membership) ran(round int, running workSet) {
	m.say(func(s *said) { s.ran, s.round, s.running = true, round, running })
}

// leave tells the coordinator, so that others need not wait for the session's end.
func (m *membership) leave(ctx context.Context) {
	m.member.leave()
	m.publish()
	now := m.now()
	send, _ := m.member.next(now)
	for _, call := range send {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), call.until.Sub(now))
		resp, err := m.client.Request(limited, call.req)
		cancel()
		m.member.answered(m.now(), call, resp, err)
		if err != nil {
			m.log.Warn("the group was not left, its session ends by itself", "error", err)
		}
	}
}

// publish tells who waits what the member holds now.
func (m *membership) publish() {
	m.mu.Lock()
	before, after := !m.share.until.IsZero(), m.member.fault == nil && m.member.held()
	old := m.share
	m.share = share{}
	if after {
		m.share = m.member.shared()
		if m.share.round == old.round {
			m.share.owned, m.share.stopping = old.owned, old.stopping
		} else {
			m.share.owned, m.share.stopping = maps.Clone(m.member.owned), maps.Clone(m.member.stopping)
		}
	}
	m.notice(before, after, &old)
	moved := before != after || m.share.round != old.round || m.share.leads != old.leads || (m.share.owners == nil) != (old.owners == nil)
	if moved {
		close(m.turned)
		m.turned = make(chan struct{})
	}
	m.mu.Unlock()
	if moved {
		m.moved()
	}
}

// shared is what the worker is told; the sets are left to the caller.
func (m *member) shared() share {
	s := share{until: m.heldUntil, round: m.round, generation: m.generation, signed: m.version >= wireSessioned, leads: m.leads, term: m.term, owners: m.owners}
	if m.current != nil {
		s.configOffset, s.leaderURL = m.current.configOffset, m.current.leaderURL
	}
	if m.phase != memberStable {
		s.owners = nil
	}
	return s
}

// notice logs, and wakes who waits for the membership or its loss.
func (m *membership) notice(before, after bool, old *share) {
	if w := m.member.warning; w != nil && w.Error() != m.warning {
		m.warning = w.Error()
		if before == after {
			m.log.Warn("trouble with the group of workers", "member", after, "why", w)
		}
	}
	if after && before && m.share.round != old.round {
		m.log.Info("the work was divided anew", "generation", m.share.generation, "share", len(m.share.owned), "leads", m.share.leads)
	}
	switch {
	case after && !before:
		m.warning, m.member.warning = "", nil
		m.log.Info("is a member of the group of workers", "member", m.member.memberID, "generation", m.member.generation,
			"share", len(m.share.owned), "leads", m.share.leads)
		close(m.taken)
		m.lost = make(chan struct{})
	case before && !after:
		m.log.Info("is no member of the group of workers any more", "why", m.member.warning)
		close(m.lost)
		m.taken = make(chan struct{})
	}
	if m.member.fault != nil && m.fault == nil {
		m.fault = m.member.fault
		if !after {
			close(m.taken)
		}
	}
}

// await returns when the worker is a member, with a channel that is closed when it no longer is; an error when it never
// will be or ctx has ended.
func (m *membership) await(ctx context.Context) (lost <-chan struct{}, err error) {
	for {
		m.mu.Lock()
		held, lost, taken, fault := m.alone || !m.share.until.IsZero(), m.lost, m.taken, m.fault
		m.mu.Unlock()
		switch {
		case fault != nil:
			return nil, fault
		case held:
			return lost, nil
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// holds is nil while the worker is a member for certain, by the time of this call.
func (m *membership) holds() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alone && (m.share.until.IsZero() || passed(m.now(), m.share.until)) {
		return errNotOwner
	}
	return nil
}

// mayStore is nil while a task of this worker may store offsets. One that was revoked and did not stop in time may not:
// another may run it by now.
func (m *membership) mayStore(id TaskID) error {
	if s := m.current(); !s.owns(id) && !s.stopping[id] {
		return errNotOwner
	}
	return nil
}

// holdsLead is nil while the worker leads the group for certain, by the time of this call.
func (m *membership) holdsLead() error {
	if err := m.holds(); err != nil {
		return err
	}
	if !m.current().leads {
		return errNotLeader
	}
	return nil
}

// current gives the worker's share.
func (m *membership) current() share {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.share
}

// whileLedBy gives a context that ends when another leads: an answer of one that is gone is not waited for. end is to be
// called when it is not needed any more.
func (m *membership) whileLedBy(ctx context.Context, url string) (led context.Context, end func()) {
	led, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		for led.Err() == nil {
			m.mu.Lock()
			turned, same := m.turned, m.share.leaderURL == url
			m.mu.Unlock()
			if !same {
				return
			}
			select {
			case <-turned:
			case <-led.Done():
			}
		}
	}()
	return led, func() { cancel(); <-watched }
}

// why tells what the group is waited for, "" for nothing.
func (m *membership) why() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warning
}
