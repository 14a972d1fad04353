package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// store is what a worker keeps its configurations, offsets and statuses in: a compacted topic (table.go) or, of a
// standalone worker, memory and a file (below). start comes first, run is its loop, the others may be called from any
// goroutine while run runs; close comes last.
type store interface {
	start(ctx context.Context) error
	run(ctx context.Context) error
	// readToEnd returns when everything that was stored at the call has been applied.
	readToEnd(ctx context.Context) error
	// put stores entries in order and returns when they are durable. With an error some may be.
	put(ctx context.Context, entries ...entry) error
	// putRead is put, and waits until what was stored has been applied here.
	putRead(ctx context.Context, entries ...entry) error
	// putAsync stores without waiting; failed is called, perhaps before it returns, if that did not work.
	putAsync(ctx context.Context, e entry, failed func(error))
	// positions gives the next offsets to be applied, by partition.
	positions() map[int32]int64
	flush(ctx context.Context) error
	close()
}

// localStore is a store in memory, and in a file if it has a path. apply may be nil: then what is put is only kept.
type localStore struct {
	path  string
	apply func(*kgo.Record)
	after func()
	now   func() time.Time

	mu   sync.Mutex
	next int64
	rows map[string][]byte // what the file holds
	lock *os.File          // of the file: held while this process uses it
}

// ErrFileTaken: another worker uses the offsets file.
var ErrFileTaken = errors.New("offsets file is in use")

// start reads the file, if there is one. A file that can't be read whole is refused: its offsets would be lost.
func (s *localStore) start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = map[string][]byte{}
	if s.path == "" {
		return nil
	}
	if err := s.own(); err != nil {
		return err
	}
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(b) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read offsets: %w", err)
	}
	if s.rows, err = parseJavaMap(b); err != nil {
		return fmt.Errorf("read offsets %s: %w", s.path, err)
	}
	for k, v := range s.rows {
		s.take(entry{[]byte(k), v})
	}
	return nil
}

// own locks the file against other workers of ours; the lock ends with the process.
func (s *localStore) own() error {
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock offsets: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("%w: %s belongs to another worker that runs; give this one its own offset.storage.file.filename", ErrFileTaken, s.path), lock.Close())
	}
	s.lock = lock
	return nil
}

func (s *localStore) take(e entry) {
	s.next++
	if s.apply != nil {
		s.apply(&kgo.Record{Key: e.key, Value: e.value, Offset: s.next - 1, Timestamp: s.now()})
	}
	if s.after != nil {
		s.after()
	}
}

func (s *localStore) put(_ context.Context, entries ...entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" {
		for _, e := range entries {
			if e.value == nil {
				delete(s.rows, string(e.key))
			} else {
				s.rows[string(e.key)] = e.value
			}
		}
		if err := writeAtomic(s.path, appendJavaMap(nil, s.rows)); err != nil {
			return fmt.Errorf("write offsets: %w", err)
		}
	}
	for _, e := range entries {
		s.take(e)
	}
	return nil
}

// writeAtomic replaces a file: after a crash at any point it is the old one or the new one, whole.
func writeAtomic(path string, b []byte) (err error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (s *localStore) putRead(ctx context.Context, entries ...entry) error {
	return s.put(ctx, entries...)
}

func (s *localStore) putAsync(ctx context.Context, e entry, failed func(error)) {
	if err := s.put(ctx, e); err != nil {
		failed(err)
	}
}

func (s *localStore) positions() map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[int32]int64{0: s.next}
}

func (s *localStore) run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *localStore) readToEnd(context.Context) error { return nil }
func (s *localStore) flush(context.Context) error     { return nil }

func (s *localStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		_ = s.lock.Close() // the lock goes with it
		s.lock = nil
	}
}
