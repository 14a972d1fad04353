package storage

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlog/weir/storage/vfs"
)

// Store is one data folder. See the package's comment for its invariants and DESIGN.md for the lock order:
// compactMu, flushMu, commitMu, Log.mu, mu; no disk under Log.mu (but Truncate's search) or mu.
type Store struct {
	opts  Options
	log   *slog.Logger
	hooks hooks // tests only
	lock  io.Closer
	salt  uint64
	gen   uint64 // one for each opening

	files      handleCache
	writers    handleCache   // of direct writes
	tailBytes  atomic.Int64  // batches in memory
	durable    atomic.Uint64 // newest round whose ticket is complete
	roundBegan atomic.Int64  // unix nanoseconds; 0: no round is under way
	wake       chan struct{} // a round waits; capacity 1
	wakeFlush  chan struct{} // a flush is wanted early; capacity 1
	failed     chan struct{}
	noWait     chan struct{} // closed

	compactMu sync.Mutex // one compaction at a time
	compacted atomic.Uint64

	commitMu sync.Mutex // one round at a time

	mu          sync.Mutex // guards what follows
	err         error      // why the store ended
	isClosed    bool
	logs        map[LogID]*Log
	nextNumber  uint64
	wal         wal
	open        *round // gathers frames; never nil
	synced      Ticket // newest round known to have been synced
	waiters     []waiter
	ready       []func()        // completions for the next Commit to return
	dirty       []*Log          // logs with frames since the last capture
	byNumber    map[uint64]*Log // during replay only
	room        chan struct{}   // nil: nobody waits
	queueRoom   chan struct{}   // likewise
	queuedBytes int64           // of frames whose rounds are not complete
	diskFull    bool
	hardState   []byte
	stateTicket Ticket            // its round
	directSince int64             // bytes written directly since the last checkpoint
	unsynced    map[string]string // files of direct writes that were not synced, under SyncOS, with their folders
	stats       Stats

	flushMu       sync.Mutex      // one flush at a time; guards what follows
	saved         map[uint64]*Log // those of the last checkpoint
	lastRetention time.Time
	hasUnsynced   bool // a replay wrote or believed bytes of segments that no sync of ours has covered

	isDirectOff atomic.Bool // the disk was full for a direct write: none until a flush succeeds
	isUnsettled atomic.Bool // the disk was full at Open: what was replayed waits for a checkpoint, and no write-ahead file is free
}

// waiter waits for a round.
type waiter struct {
	ticket Ticket
	done   func(error)
}

// hooks let tests break rules on purpose and look on. The zero value changes nothing.
type hooks struct {
	onFrame        func(f *frame, t Ticket) // called under locks
	ignoreFrame    func(f *frame) bool      // replay leaves it out
	ackBeforeSync  bool
	skipSync       bool
	anyFrameSeq    bool // replay applies frames that the checkpoint covers
	acceptTorn     bool // replay believes rounds without their CRC
	anyGeneration  bool // replay takes rounds of older openings
	cutEarly       bool // files are cut before the frame that says so is durable
	skipFlushSync  bool // the checkpoint is written before the segments are synced
	recycleEarly   bool // write-ahead files are reused before the checkpoint
	captureUnready bool // the checkpoint names frames that are not durable
	keepFile       bool // a truncation does not close its file
	forgetState    bool // the checkpoint leaves out producers and epochs
	skipNewSync    bool // a compaction's files are not synced
	skipDirectSync bool // a round is complete before its direct writes are synced
	skipDirectDir  bool // the same of the folders of new files
	skipOlder      bool // a direct write leaves to the flush what earlier rounds brought
	believeDirect  bool // replay takes direct frames without their CRC
	claimDirect    bool // under SyncOS rounds are called synced whose direct writes are not
	removeDirect   bool // a full disk may take files that a replay wants
	cleanDirect    bool // compaction and retention take such files
	takeUnsettled  bool // a store opened on a full disk takes frames before its checkpoint
}

// Stats is a snapshot for metrics. Counters count from Open.
type Stats struct {
	Rounds, Flushes         uint64
	AppendedBytes, WALBytes uint64 // batches taken; written to the write-ahead log, with padding
	DirectBytes             uint64 // batches written straight to segments
	CommitNanos, FlushNanos uint64 // sums of time
	TailBytes               int64  // in memory, not yet in a segment
	Logs, WALFiles, WALFree int
	DiskFull                bool
	Compactions             uint64 // of logs
}

// Open takes the folder, replays it and serves it; nothing unsynced is served. It fails with vfs.ErrLocked when another process
// has the folder, and with a CorruptError when bytes that were synced are damaged. On a full disk it opens all the same: reads
// are served, everything else is ErrDiskFull until a Flush finds space (only a folder that is new fails, with ErrDiskFull).
func Open(opts Options) (*Store, error) { return openStore(opts, hooks{}) }

func openStore(opts Options, h hooks) (*Store, error) {
	opts.SetDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("storage options: %w", err)
	}
	if err := makeDataDir(opts.FS, opts.Dir); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	lock, err := opts.FS.Lock(path.Join(opts.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	s := &Store{
		opts: opts, log: opts.Logger.With("component", "storage"), hooks: h, lock: lock,
		files:   handleCache{openFile: opts.FS.Open, limit: opts.OpenFiles, open: map[handleKey]*handle{}},
		writers: handleCache{openFile: opts.FS.OpenReadWrite, limit: min(opts.OpenFiles, maxWriters), open: map[handleKey]*handle{}},
		wake:    make(chan struct{}, 1), wakeFlush: make(chan struct{}, 1), failed: make(chan struct{}), noWait: make(chan struct{}),
		logs: map[LogID]*Log{}, saved: map[uint64]*Log{}, nextNumber: 1,
	}
	close(s.noWait)
	s.wal.fileBytes, s.wal.alignBytes = opts.WALFileBytes, blockBytes
	if opts.Sync == SyncOS {
		s.wal.alignBytes = minAlignBytes
	}
	s.wal.measure()
	if err := s.recover(); err != nil {
		s.closeFiles()
		_ = lock.Close()
		return nil, fmt.Errorf("open data folder %s: %w", opts.Dir, err)
	}
	return s, nil
}

// makeDataDir makes the folder and what is missing above it, durably.
func makeDataDir(fs vfs.FS, dir string) error {
	var parents []string
	for missing := path.Clean(dir); ; missing = path.Dir(missing) {
		if _, err := fs.Stat(missing); err == nil || !vfs.IsNotExist(err) || missing == path.Dir(missing) {
			break
		}
		parents = append(parents, path.Dir(missing))
	}
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := fs.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// newSalt draws the number that makes this store's rounds unforgeable.
func newSalt() (uint64, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]), err
}

// Close commits, flushes, and releases the folder. Run must have returned. Idempotent; the error is what kept it from being clean.
func (s *Store) Close() error {
	var now time.Time // nothing expires and no retention is applied on the way out
	var completions []func()
	err := s.Err()
	for err == nil && s.waiting() {
		var some []func()
		some, err = s.Commit(now)
		completions = append(completions, some...)
	}
	if err == nil {
		err = s.Flush(now)
	}
	s.mu.Lock()
	isClosed := s.isClosed
	s.isClosed = true
	s.mu.Unlock()
	if isClosed {
		return nil
	}
	s.fail(ErrStoreClosed)
	completions = append(completions, s.takeReady()...)
	for _, done := range completions {
		done()
	}
	s.closeFiles()
	return errors.Join(err, s.lock.Close())
}

// waiting says that a round is there to commit.
func (s *Store) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wal.sealed) > 0 || s.open.frames > 0
}

func (s *Store) closeFiles() {
	s.files.closeAll()
	s.writers.closeAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.wal.free, s.wal.used...)
	if s.wal.current != nil {
		all = append(all, s.wal.current)
	}
	for _, f := range all {
		_ = f.file.Close() // all that matters was synced
	}
	s.wal = wal{fileBytes: s.wal.fileBytes, alignBytes: s.wal.alignBytes}
	s.wal.measure()
}

// Failed is closed when the store ended; Err says why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is nil while the store works; else an error that wraps ErrStoreFailed or ErrStoreClosed.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail ends the store: every open ticket fails, nothing more is accepted. The first reason stays.
func (s *Store) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if !errors.Is(reason, ErrStoreClosed) {
		reason = fmt.Errorf("%w: %w", ErrStoreFailed, reason)
	}
	s.err = reason
	close(s.failed)
	for _, w := range s.waiters {
		s.ready = append(s.ready, func() { w.done(reason) })
	}
	s.waiters = nil
	s.relieve()
	signal(s.wake)
}

// Room returns a channel that is closed when there is room for an append of so many bytes, as it is as a rule. A connection waits on it
// before it reads on. It is closed too when the store ends or the disk is full: then Append says so. Large appends wait also while
// Options.QueueBytes wait for the disk, so that small ones, which don't, need not wait long behind them.
func (s *Store) Room(sizeBytes int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.holdsBack():
		signal(s.wakeFlush)
		return waitFor(&s.room)
	case sizeBytes >= smallBytes && s.hasQueue():
		return waitFor(&s.queueRoom)
	}
	return s.noWait
}

// smallBytes is the size from which on an append is large.
const smallBytes = 64 << 10

// waitFor returns the channel that the next release closes.
func waitFor(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

// release closes the channel, if somebody waits.
func release(c *chan struct{}) {
	if *c != nil {
		close(*c)
		*c = nil
	}
}

// hasQueue says that large appends should wait for the disk. Called with mu held.
func (s *Store) hasQueue() bool { return s.queuedBytes >= s.opts.QueueBytes && s.err == nil }

// holdsBack says that appends should wait for a flush. Called with mu held.
func (s *Store) holdsBack() bool {
	hasRoom := s.tailBytes.Load() < s.opts.TailBytes && s.wal.admits(int64(s.opts.RoundBytes), s.wal.reserveBytes())
	return !hasRoom && !s.diskFull && s.err == nil
}

// relieve lets those go on who wait for Room, if there is some. Called with mu held.
func (s *Store) relieve() {
	if !s.holdsBack() {
		release(&s.room)
	}
	if !s.hasQueue() {
		release(&s.queueRoom)
	}
}

// signal sets a wake-up channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// OpenLog returns the log with the id and sets its configuration; it is made if absent, durably before anything appended to it.
// name ("orders-0") is for people and counts only at creation. Never touches the disk.
func (s *Store) OpenLog(id LogID, name string, cfg LogConfig) (*Log, error) {
	cfg.SetDefaults()
	s.mu.Lock()
	if l := s.logs[id]; l != nil {
		s.mu.Unlock()
		l.SetConfig(cfg)
		return l, nil
	}
	defer s.mu.Unlock()
	l := &Log{store: s, id: id, name: name[:min(len(name), maxNameBytes)], number: s.nextNumber, cfg: cfg, nextFile: 1, seq: 1}
	f := frame{kind: frameCreate, id: id, number: l.number, seq: 1, body: []byte(l.name)}
	_, ticket, err := s.putLocked(l, &f)
	if err != nil {
		return nil, fmt.Errorf("make log %s: %w", name, err)
	}
	l.ticket, l.created = ticket, ticket
	s.nextNumber++
	s.logs[id] = l
	return l, nil
}

// Log returns an existing log, or nil.
func (s *Store) Log(id LogID) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[id]
}

// Logs lists the logs there are, in no order.
func (s *Store) Logs() []LogID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]LogID, 0, len(s.logs))
	for id := range s.logs {
		ids = append(ids, id)
	}
	return ids
}

// Drop removes a log: at once for callers, on disk after the ticket. ErrDropped when there is none.
func (s *Store) Drop(id LogID) (Ticket, error) {
	l := s.Log(id)
	if l == nil {
		return 0, fmt.Errorf("drop log %s: %w", id, ErrDropped)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped {
		return 0, fmt.Errorf("drop log %s: %w", id, ErrDropped)
	}
	f := l.next(frameDrop, time.Time{})
	f.nowMs = 0
	_, ticket, err := s.put(l, &f)
	if err != nil {
		return 0, fmt.Errorf("drop log %s: %w", id, err)
	}
	l.applyDrop(&f, ticket)
	return ticket, nil
}

// applyDrop takes the log out of the store.
func (l *Log) applyDrop(f *frame, ticket Ticket) {
	l.dropped = true
	l.dropTail(0, len(l.tail))
	l.seq, l.ticket = f.seq, ticket
	l.cuts++
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	delete(l.store.logs, l.id)
}

// SetHardState puts raft's hard state (opaque, at most 4 KiB) into the write-ahead log.
func (s *Store) SetHardState(state []byte) (Ticket, error) {
	if len(state) > maxStateBytes {
		return 0, fmt.Errorf("hard state of %d bytes: %w", len(state), ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := frame{kind: frameHardState, body: append([]byte(nil), state...)}
	_, ticket, err := s.putLocked(nil, &f)
	if err != nil {
		return 0, fmt.Errorf("put hard state: %w", err)
	}
	s.hardState, s.stateTicket = f.body, ticket
	return ticket, nil
}

// HardState returns a copy of the newest hard state put (nil if none); after Open, the newest durable one.
func (s *Store) HardState() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.hardState...)
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.TailBytes, st.Logs = s.tailBytes.Load(), len(s.logs)
	st.WALFiles, st.WALFree, st.DiskFull = s.wal.files(), len(s.wal.free), s.diskFull
	st.Compactions = s.compacted.Load()
	return st
}
