package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/core/kafka"
)

// errNotOwner: this worker may not write, since another may run the group's connectors.
var errNotOwner = errors.New("this worker does not hold its group")

// membership keeps a worker's seat in its group: it runs the machine of seat.go against the coordinator and tells the
// worker when it holds the group and when it no longer does. run is its loop; the other methods may be called from any
// goroutine.
type membership struct {
	now    func() time.Time
	log    *slog.Logger
	client *kgo.Client
	alone  bool // a standalone worker: there is no group, and it is held always
	seat   seat // run's alone

	mu      sync.Mutex
	until   time.Time     // what the seat holds; zero: nothing
	lost    chan struct{} // closed when what is held is lost
	taken   chan struct{} // closed when it is held
	fault   error         // run has ended with
	warning string        // why it is not held yet
}

// newMembership makes the membership of a worker; open makes it usable.
func newMembership(cfg *Config, identity string, now func() time.Time, log *slog.Logger) *membership {
	if identity == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		identity = hex.EncodeToString(b[:])
	}
	return &membership{now: now, alone: cfg.Standalone, log: log.With("group", cfg.GroupID), lost: make(chan struct{}), taken: make(chan struct{}),
		seat: seat{cfg: seatConfig{group: cfg.GroupID, identity: identity, url: "http://" + cfg.WorkerID + "/",
			session: cfg.Session, heartbeat: cfg.Heartbeat, rebalance: cfg.Rebalance, wait: cfg.GroupWait}}}
}

// open opens the client; nothing is dialled.
func (m *membership) open(props map[string]string, extra []kgo.Opt) (err error) {
	opts := append([]kgo.Opt{kgo.ClientID(m.seat.cfg.clientID()), kgo.MetadataMinAge(metadataMinAge)}, extra...)
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

// run holds the seat until ctx ends, then leaves the group. It returns early only with a fault that trying again won't mend.
func (m *membership) run(ctx context.Context) error {
	if m.alone {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		now := m.now()
		req, until := m.seat.next(now)
		m.publish()
		if req == nil {
			sleep(ctx, until.Sub(now))
			continue
		}
		limited, cancel := context.WithTimeout(ctx, until.Sub(now))
		resp, err := m.client.Request(limited, req)
		cancel()
		if ctx.Err() != nil {
			break
		}
		m.seat.answered(m.now(), now, resp, err)
		m.publish()
		if m.seat.fault != nil {
			return m.seat.fault
		}
	}
	return m.leave(ctx)
}

// leave tells the coordinator, so that others need not wait for the session's end.
func (m *membership) leave(ctx context.Context) error {
	m.mu.Lock()
	m.until = time.Time{}
	m.mu.Unlock()
	m.seat.leave()
	now := m.now()
	if req, until := m.seat.next(now); req != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), until.Sub(now))
		defer cancel()
		resp, err := m.client.Request(limited, req)
		m.seat.answered(m.now(), now, resp, err)
		if err != nil {
			m.log.Warn("the group was not left, its session ends by itself", "error", err)
		}
	}
	return nil
}

// publish tells who waits what the seat holds now.
func (m *membership) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, after := !m.until.IsZero(), m.seat.fault == nil && !m.seat.heldUntil.IsZero()
	m.until = time.Time{}
	if after {
		m.until = m.seat.heldUntil
	}
	if w := m.seat.warning; w != nil && w.Error() != m.warning {
		m.warning = w.Error()
		if before == after {
			m.log.Warn("trouble with the group of workers", "held", after, "why", w)
		}
	}
	switch {
	case after && !before:
		m.warning = ""
		m.log.Info("holds the group of workers", "member", m.seat.memberID, "generation", m.seat.generation)
		close(m.taken)
		m.lost = make(chan struct{})
	case before && !after:
		m.log.Warn("has lost the group of workers, its connectors end", "why", m.seat.warning)
		close(m.lost)
		m.taken = make(chan struct{})
	}
	if m.seat.fault != nil && m.fault == nil {
		m.fault = m.seat.fault
		if !after {
			close(m.taken)
		}
	}
}

// await returns when the group is held, with a channel that is closed when it no longer is; an error when it never will
// be or ctx has ended.
func (m *membership) await(ctx context.Context) (lost <-chan struct{}, err error) {
	for {
		m.mu.Lock()
		held, lost, taken, fault := m.alone || !m.until.IsZero(), m.lost, m.taken, m.fault
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

// holds is nil while the group is held for certain, by the time of this call.
func (m *membership) holds() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alone && (m.until.IsZero() || passed(m.now(), m.until)) {
		return errNotOwner
	}
	return nil
}

// why tells what the group is waited for, "" for nothing.
func (m *membership) why() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warning
}
