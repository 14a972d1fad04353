package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

const (
	maxJoin = 16 // addresses, so that all can be called at once

	formLinger = 3 * probeEvery

	// How Form tells what it waits for.
	formTellEvery = 30 * time.Second // the same
	formTellNews  = 2 * time.Second  // something else
)

// Form makes a new data folder that of a node of a cluster: with the others of cfg.Join it forms one, or joins the one that it meets. It returns when
// the folder says so durably, at once if it does already or if cfg.Join is empty; Open goes on from there. Meanwhile it answers on ln, which stays
// open, what nodes that form a cluster ask each other, and nothing else. It waits for the others for as long as it takes, until ctx ends.
func Form(ctx context.Context, cfg Config, ln net.Listener) error {
	cfg.SetDefaults()
	if len(cfg.Join) == 0 {
		return nil
	}
	self := cmp.Or(cfg.Advertise, ln.Addr().String())
	if err := checkJoin(self, cfg.Join, cfg.ClusterSecret); err != nil {
		return err
	}
	store, err := storage.Open(storage.Options{FS: cfg.FS, Dir: cfg.Dir, Sync: cfg.Flush, WALFileBytes: cfg.WALFileBytes, TailBytes: cfg.TailBytes, Logger: cfg.Logger})
	if err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	folder, isNode, err := meta.ReadIdentity(store)
	switch {
	case err != nil:
		err = fmt.Errorf("data folder %s: %w", cfg.Dir, err)
	case !isNode && len(store.Logs()) > 0:
		err = fmt.Errorf("%w: the data folder %s has records and is no node of a cluster yet: start it once without --join, and have others join it", errJoin, cfg.Dir)
	case !isNode || folder.IsFounded() && len(folder.Voters) > 1:
		err = form(ctx, cfg, self, ln, store, folder)
	}
	if failed := store.Close(); !isNode || !errors.Is(failed, storage.ErrDiskFull) {
		err = errors.Join(err, failed)
	}
	return err
}

// checkJoin refuses what can't become a cluster, and says how to mend it.
func checkJoin(self string, list []string, secret string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{errJoin}, args...)...)
	}
	host, _, err := splitHostPort(self)
	if err != nil {
		return refuse("advertised.listeners: %w", err)
	}
	ip := net.ParseIP(host)
	isLocal := host == "localhost" || ip != nil && ip.IsLoopback()
	if len(list) > maxJoin {
		return refuse("--join names %d nodes, at most %d are asked", len(list), maxJoin)
	}
	for i, addr := range list {
		other, _, err := splitHostPort(addr)
		otherIP := net.ParseIP(other)
		switch {
		case err != nil:
			return refuse("--join: %w: want HOST:PORT", err)
		case slices.Contains(list[:i], addr):
			return refuse("--join names %s twice", addr)
		case isLocal && other != "localhost" && (otherIP == nil || !otherIP.IsLoopback()):
			return refuse("this node tells others that it is at %s, where %s can't reach it: set advertised.listeners to an address that all nodes reach", self, addr)
		}
	}
	switch {
	case secret == "":
		return refuse("nodes prove themselves to each other by cluster.secret, and there is none: set the same one on every node")
	case ip != nil && ip.IsUnspecified():
		return refuse("this node listens everywhere, and others want an address: set advertised.listeners to one that all nodes reach")
	case slices.Contains(list, self) && len(list) == 1:
		return refuse("--join names only this node: leave --join out for a node of its own, or name three")
	case slices.Contains(list, self) && len(list) == 2:
		return refuse("--join names two nodes, which can't survive the loss of either: name three, or start one without --join and have others join it")
	}
	return nil
}

// forming is a former with its disk and its network. Everything happens on the goroutine of run; others give it events.
type forming struct {
	cfg    Config
	log    *slog.Logger
	store  *storage.Store
	f      *former
	peers  *tcpPeers
	events chan func(now time.Time)
	ended  chan struct{} // closed when run has returned

	told   string
	toldAt time.Time
}

func form(ctx context.Context, cfg Config, self string, ln net.Listener, store *storage.Store, folder meta.Identity) error {
	log := cfg.Logger.With("component", "broker")
	f, err := newFormer(self, cfg.Join, cfg.NodeID, folder, cfg.Rand)
	if err != nil {
		return err
	}
	peers, err := newTCPPeers(peersConfig{
		Secret: cfg.ClusterSecret, Self: func() peerSelf { return peerSelf{Address: self} }, AnswerBytes: maxPeerControlBytes, Logger: log, Now: cfg.Now, Rand: cfg.Rand,
	})
	if err != nil {
		return err
	}
	g := &forming{cfg: cfg, log: log, store: store, f: f, peers: peers, events: make(chan func(time.Time)), ended: make(chan struct{})}
	var serving sync.WaitGroup
	door, err := newFormDoor(g, ln, self)
	if err != nil {
		return err
	}
	serving.Go(door.run)
	log.Info("a cluster is formed or joined", "self", self, "join", strings.Join(cfg.Join, ","))
	err = g.run(ctx)
	close(g.ended)
	peers.close()
	err = errors.Join(err, door.close())
	serving.Wait()
	if err = errors.Join(err, door.reopen()); err == nil {
		log.Info("the node is one of a cluster", "node", f.outcome.Node, "cluster", f.outcome.ClusterID, "founder", len(f.outcome.Voters) > 0)
	}
	return err
}

// run steps the former until it has ended.
func (g *forming) run(ctx context.Context) error {
	g.toldAt = g.cfg.Now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case event := <-g.events:
			event(g.cfg.Now())
		}
		now := g.cfg.Now()
		for _, c := range g.f.step(now) {
			g.call(c)
		}
		if g.f.outcome != nil {
			return g.write(*g.f.outcome)
		}
		if g.f.fault != nil {
			return g.linger(ctx)
		}
		g.tell(now)
		tick.Reset(max(0, g.f.next().Sub(now)))
	}
}

// linger gives others the time to learn from this node why it can't be one of theirs, or they of its.
func (g *forming) linger(ctx context.Context) error {
	over := time.NewTimer(formLinger)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return g.f.fault
		case <-over.C:
			return g.f.fault
		case event := <-g.events:
			event(g.cfg.Now())
		}
	}
}

// write makes an identity durable.
func (g *forming) write(i meta.Identity) error {
	ticket, err := meta.WriteIdentity(g.store, i)
	if err != nil {
		return err
	}
	isDurable := false
	g.store.Notify(ticket, func(failed error) { isDurable, err = failed == nil, failed })
	done, failed := g.store.Commit(g.cfg.Now())
	for _, complete := range done {
		complete()
	}
	if err = errOf(err, failed); err != nil || !isDurable {
		return fmt.Errorf("write the node's identity: %w", errOf(err, errNotDurable))
	}
	return nil
}

var errNotDurable = errors.New("it isn't durable yet")

// call sends a request, and has the answer taken on run's goroutine.
func (g *forming) call(c formCall) {
	body, err := json.Marshal(c.body)
	if err != nil {
		g.answer(g.cfg.Now(), c, nil, err)
		return
	}
	g.peers.callAddr(c.to, &privateRequest{key: c.key, body: body}, func(resp *privateResponse, err error) {
		g.do(func(now time.Time) { g.answer(now, c, resp, err) })
	})
}

// do has something done on run's goroutine; false: run has returned.
func (g *forming) do(event func(now time.Time)) bool {
	select {
	case g.events <- event:
		return true
	case <-g.ended:
		return false
	}
}

func (g *forming) answer(now time.Time, c formCall, resp *privateResponse, err error) {
	if err == nil {
		err = refusedBy(resp)
	}
	switch c.key {
	case keyProbe:
		var a probeAnswer
		g.f.probed(now, c.to, a, errOf(err, resp.decode(&a)))
	case keyFound:
		g.f.founded(c.to, err)
	case keyJoin:
		var a joinAnswer
		isFinal := resp != nil && resp.code == kerr.DuplicateBrokerRegistration.Code
		err = errOf(err, resp.decode(&a))
		g.f.joined(now, a, err, isFinal)
	}
}

// decode reads the answer's JSON. A refusal has none.
func (r *privateResponse) decode(into any) error {
	if r == nil || r.code != 0 {
		return nil
	}
	if err := json.Unmarshal(r.body, into); err != nil {
		return fmt.Errorf("%w: key %d: %w", errPeerAnswer, r.key, err)
	}
	return nil
}

// tell says now and then what is waited for.
func (g *forming) tell(now time.Time) {
	text := g.f.waitsFor(now)
	if d := now.Sub(g.toldAt); d < formTellNews || text == g.told && d < formTellEvery {
		return
	}
	g.told, g.toldAt = text, now
	g.log.Info("forming or joining a cluster waits", "for", text)
}
