package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/storage"
)

// Broker is one node. Open makes it whole; Run drives it; Serve and Dial let clients in; Close ends it cleanly.
//
// Lock order: meta's lock, then topics.mu, then a partition's, then the log's own. Nothing is called back under any.
type Broker struct {
	cfg    Config
	log    *slog.Logger
	store  *storage.Store
	meta   *meta.Quorum
	topics topics
	table  *table
	timers *timers
	groups groups
	ids    producerIDs

	placements atomic.Uint64 // partitions that this start has placed
	budget     *budget       // frames of requests
	heavy      *budget       // large requests until their answers are written (weight.go)
	light      *budget       // likewise others
	waits      allowance     // fetches that wait

	sessions   *fetchSessions
	followers  followerSessions
	replicator *replicator
	stats      stats

	peers      Peers     // nil: there are none
	tcp        *tcpPeers // these, if they are over TCP
	attached   attachments
	generation atomic.Int64 // of this start as it was registered, Kafka's broker epoch; 0 before
	registered atomic.Bool  // this start is in the metadata: appends are taken
	leader     atomic.Int32 // of the metadata's group, 0 while it isn't known
	isSilent   atomic.Bool  // the disk hangs, or this node has left the metadata's group
	isOpen     atomic.Bool  // the image's replicas are opened and assigned as they change
	isCutOff   atomic.Bool  // the metadata's leader is lost for longer than it takes to elect another
	isClocked  atomic.Bool  // the metadata's group wants to be told the time

	isIncomplete atomic.Bool // not all logs could be opened or dropped as the image says
	openAt       time.Time   // it is tried again; the stepping goroutine's

	knew         int64  // the generation in which this folder registered last, as it knew when it was opened
	startsAlone  bool   // nobody else was a member when it was opened
	joined       string // cluster that the folder belongs to, as it was founded or has joined; empty: it began its own
	newClusterID string // for a cluster that has none
	strangers    int    // registrations under this node's id by others; under meta's lock
	pace         pace
	introducer   introducer
	member       membership
	duty         duty
	leaving      leaving
	isNodesStale atomic.Bool           // others have come, gone or moved
	fault        atomic.Pointer[error] // why it must end
	failures     seldom                // errors of storage that clients meet
	rejects      seldom                // clients that are turned away
	fetches      atomic.Int64          // bytes granted to fetch answers that are being written
	advertised   atomic.Pointer[string]

	mu        sync.Mutex
	conns     map[*conn]struct{}
	peerConns int // of these
	listeners map[net.Listener]struct{}
	closing   bool
	ended     chan struct{}  // closed with closing
	serving   sync.WaitGroup // connections, and accept loops
}

// Open opens the data folder, rebuilds the metadata, raises the leader epochs, and opens every partition. It serves
// nothing yet, and no goroutine runs when it returns. The broker owns the folder until Close.
func Open(cfg Config) (*Broker, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("broker configuration: %w", err)
	}
	logger := cfg.Logger.With("component", "broker")
	store, err := storage.Open(storage.Options{
		FS: cfg.FS, Dir: cfg.Dir, Sync: cfg.Flush, WALFileBytes: cfg.WALFileBytes, TailBytes: cfg.TailBytes, Logger: cfg.Logger,
		CompactionInterval: cfg.CompactionInterval, CompactionMapBytes: cfg.CompactionMapBytes, CompactionBytesPerSecond: cfg.CompactionRate,
	})
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	b := &Broker{
		cfg: cfg, log: logger, store: store, peers: cfg.Peers,
		table:     newTable(apis(), peerAPIs()...),
		timers:    newTimers(),
		budget:    newBudget(cfg.MemoryBytes),
		heavy:     newBudget(cfg.MemoryBytes / heavyShare),
		light:     newBudget(cfg.MemoryBytes / lightShare),
		waits:     allowance{limit: cfg.MemoryBytes / waitsShare},
		sessions:  newFetchSessions(cfg.MemoryBytes/fetchSessionShare, cfg.Rand),
		conns:     make(map[*conn]struct{}),
		listeners: make(map[net.Listener]struct{}),
		ended:     make(chan struct{}),
	}
	b.heavy.isFair = true
	identity, err := b.identify()
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := b.openPeers(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if b.replicator, err = newReplicator(b, cfg.Rand); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	b.stats.init(b.table)
	b.topics.init()
	b.groups.init(b)
	if err := b.openMeta(identity); err != nil {
		b.disconnect()
		return nil, errors.Join(err, store.Close())
	}
	b.openGroups()
	b.news()
	if b.tcp != nil {
		b.after(b.cfg.Now(), 0, b.introduce)
	}
	return b, nil
}

// Run drives the broker until ctx ends, the store fails or there is an Err: the store's loops and Step. Every goroutine that it
// starts is gone when it returns. In a cluster, Leave before ctx ends; call Close after Run. Order of the end: what this node leads is handed over
// (Leave), no more steps, listeners and connections closed, those to peers too, store's loops; what the connections had appended last is
// committed by Close.
func (b *Broker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStore()
	b.groups.isDriven.Store(true)
	g.Go(func() error { return b.store.Run(storeCtx) })
	g.Go(func() error { return b.loadGroups(ctx) })
	g.Go(func() error {
		defer stopStore()
		defer b.disconnect()
		return b.tick(ctx)
	})
	err := g.Wait()
	if failed := b.store.Err(); failed != nil {
		return fmt.Errorf("the data folder %s failed, restart to recover what was acknowledged: %w", b.cfg.Dir, failed)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run broker: %w", err)
	}
	return nil
}

// tick sleeps until the next deadline and steps.
func (b *Broker) tick(ctx context.Context) error {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.store.Failed():
			return b.store.Err()
		case <-b.timers.wake:
		case <-sleep.C:
		}
		wait := time.Hour
		if next := b.Step(b.cfg.Now()); !next.IsZero() {
			wait = max(0, next.Sub(b.cfg.Now()))
		}
		if err := b.Err(); err != nil {
			return err
		}
		sleep.Reset(wait)
	}
}

// Store is the broker's data folder, for those who step it without Run (Commit, Flush) and for tests.
func (b *Broker) Store() *storage.Store { return b.store }

// Handle serves one request. It doesn't block, calls done exactly once (perhaps before it returns), and may be called
// from many goroutines at once. A request whose version isn't served must not get here, but for ApiVersions.
func (b *Broker) Handle(req *Request, done Done) {
	row := b.table.find(req.Key)
	if row == nil {
		done(hangUp{})
		return
	}
	row.handle(b, req, b.stats.request(req, b.cfg.Now, done))
}

// after runs fire on the stepping goroutine when d has passed since now. Both ends are the caller's clock: req.Now.
func (b *Broker) after(now time.Time, d time.Duration, fire func(now time.Time)) *timer {
	return b.timers.at(now.Add(d), fire)
}

// Close closes every connection, answers what waits with an error, and closes the data folder cleanly.
// Run must have returned.
func (b *Broker) Close() error {
	b.disconnect()
	b.closeGroups()
	b.topics.close(errClosing)
	if err := b.store.Close(); err != nil {
		return fmt.Errorf("close data folder: %w", err)
	}
	return nil
}

// disconnect closes listeners and connections, those to peers too, and waits until their goroutines are gone.
func (b *Broker) disconnect() {
	b.mu.Lock()
	if !b.closing {
		b.closing = true
		close(b.ended)
	}
	for ln := range b.listeners {
		_ = ln.Close() // nothing was written to it
	}
	for c := range b.conns {
		c.close(errClosing)
	}
	b.mu.Unlock()
	if b.tcp != nil {
		b.tcp.close()
	}
	b.serving.Wait()
}

// ID is the node's id, ClusterID the cluster's.
func (b *Broker) ID() int32 { return b.cfg.NodeID }

// ClusterID is the id that the cluster got when it was founded.
func (b *Broker) ClusterID() string {
	id := b.joined
	b.meta.View(func(img *meta.Image) { id = cmp.Or(img.ClusterID(), id) })
	return id
}

// Advertised is the HOST:PORT that clients are told, empty while nothing is served.
func (b *Broker) Advertised() string {
	if p := b.advertised.Load(); p != nil {
		return *p
	}
	return b.cfg.Advertise
}

var _ kmsg.Response = hangUp{}
