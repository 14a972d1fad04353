package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	txnLinger     = 5 * time.Millisecond // how long to wait for more of a transaction before a batch is returned
	senderShare   = 3                    // status updates per wal_sender_timeout
	minStatusWait = 10 * time.Millisecond
	silentUpdates = 3                // status updates that the server may leave without an answer
	minPatience   = 20 * time.Second // but not sooner
)

// errSilent says that the server does not answer, so that its machine or the way there may be gone.
var errSilent = errors.New("the server has been silent")

// stream is a started replication connection with its status loop.
type stream struct {
	wire     *wire
	decoder  *decoder
	status   *statusLoop
	silent   time.Duration // how long reads have waited since the last message
	patience time.Duration // how long they may
}

// openStream starts streaming behind the position.
func (t *task) openStream(ctx context.Context, from position) (*stream, error) {
	ctx, cancel := unhurried(ctx)
	defer cancel()
	sql, err := t.catalog(ctx)
	if err != nil {
		return nil, err
	}
	slot, err := slotOf(ctx, sql, t.settings.slot)
	if err != nil {
		return nil, err
	}
	switch {
	case !slot.exists:
		return nil, fmt.Errorf("replication slot %q does not exist any more, so the changes since %s are lost; restart the connector with snapshot.mode=when_needed to read the tables again", t.settings.slot, formatLSN(from.commit))
	case slot.lost != "":
		return nil, t.settings.lostError(slot)
	case slot.confirmed > from.commit:
		return nil, fmt.Errorf("replication slot %q confirms %s, ahead of the position %s: somebody else has moved it; restart the connector", t.settings.slot, formatLSN(slot.confirmed), formatLSN(from.commit))
	}
	setting, err := oneOf(ctx, sql, `SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'`)
	if err != nil {
		return nil, err
	}
	every := t.settings.statusEvery
	if len(setting) == 1 {
		if ms, err := strconv.Atoi(setting[0]); err == nil && ms > 0 {
			every = min(every, time.Duration(ms)*time.Millisecond/senderShare)
		}
	}
	conn, err := t.dial(ctx, true)
	if err != nil {
		return nil, err
	}
	w, err := takeWire(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := startReplication(ctx, w, t.settings, from.commit); err != nil {
		return nil, errors.Join(err, w.close())
	}
	t.confirm(slot.confirmed)
	t.log.Info("streaming", "slot", t.settings.slot, "from", formatLSN(from.commit))
	every = max(every, minStatusWait)
	s := &stream{wire: w, patience: max(silentUpdates*every, minPatience)}
	s.decoder = &decoder{settings: t.settings, batch: &t.batch, resolve: t.resolve,
		relations: make(map[uint32]*relation), done: from}
	if from.inside {
		s.decoder.resume = from
	}
	s.status = startStatus(t.life, w, every, &t.confirmed, t.wake)
	t.stats.connected.Store(1)
	return s, nil
}

// startReplication sends START_REPLICATION and waits until the server copies both ways.
func startReplication(ctx context.Context, w *wire, s *settings, lsn uint64) error {
	sql := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names '%s')", quoteIdent(s.slot), formatLSN(lsn), quotePublication(s.publication))
	if err := w.query(sql); err != nil {
		return fmt.Errorf("start replication: %w", err)
	}
	for {
		kind, body, err := w.frame(ctx, time.Now().Add(controlTimeout))
		if err != nil {
			return fmt.Errorf("start replication: %w", err)
		}
		switch kind {
		case 'W':
			return nil
		case 'E':
			return fmt.Errorf("start replication: %w", serverError(body))
		}
	}
}

// quotePublication quotes a name inside a quoted option.
func quotePublication(name string) string {
	var out []byte
	for _, b := range []byte(quoteIdent(name)) {
		if b == '\'' {
			out = append(out, '\'')
		}
		out = append(out, b)
	}
	return string(out)
}

// close ends the stream: the status loop first, then the connection.
func (s *stream) close() error {
	s.status.stop()
	return s.wire.close()
}

// stepStream puts changes into the batch until it is full, nothing more is at hand, or ctx ends.
func (t *task) stepStream(ctx context.Context) error {
	s := t.stream
	defer s.decoder.finish()
	for !t.full() {
		if !s.wire.buffered() && !t.batch.Empty() && !s.decoder.inTxn {
			break
		}
		started := time.Now()
		kind, body, err := s.wire.frame(ctx, t.frameDeadline(s.wire))
		if errors.Is(err, errNoFrame) {
			if s.silent += time.Since(started); s.silent > s.patience {
				return fmt.Errorf("read the stream: %w for %s", errSilent, s.silent.Round(time.Second))
			}
			break
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		s.silent = 0
		if err := t.streamFrame(ctx, kind, body); err != nil {
			return err
		}
	}
	return nil
}

// frameDeadline is when a read gives up: soon, once the batch holds something.
func (t *task) frameDeadline(w *wire) time.Time {
	if t.batch.Len() == 0 || w.buffered() {
		return time.Now().Add(time.Hour)
	}
	return time.Now().Add(txnLinger)
}

func (t *task) streamFrame(ctx context.Context, kind byte, body []byte) error {
	s := t.stream
	t.stats.progress.Add(1)
	switch kind {
	case 'd':
	case 'E':
		return fmt.Errorf("read the stream: %w", serverError(body))
	case 'c':
		return errors.New("read the stream: the server ended it")
	default:
		return nil // notices, parameters
	}
	if len(body) == 0 {
		return fmt.Errorf("%w: empty", errMalformed)
	}
	switch body[0] {
	case 'w':
		m, err := readXLogData(body[1:])
		if err != nil {
			return err
		}
		t.stats.serverLSN(m.startLSN)
		if err := s.decoder.message(ctx, &m); err != nil {
			return err
		}
		if m.data[0] == 'B' {
			t.stats.behindMicros.Store(max(0, time.Now().UnixMicro()-s.decoder.begin.commitMicros))
		}
	case 'k':
		k, err := readKeepalive(body[1:])
		if err != nil {
			return err
		}
		t.stats.serverLSN(k.endLSN)
		if !s.decoder.inTxn {
			t.stats.behindMicros.Store(0)
		}
		s.decoder.alive(k)
		if k.reply {
			t.wakeStatus()
		}
	}
	return nil
}

// statusLoop tells the server what is confirmed: regularly, so that it takes the connection for alive also while nobody
// polls, and at once when asked or when the confirmed position has moved.
type statusLoop struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startStatus(life context.Context, w *wire, every time.Duration, confirmed *atomic.Uint64, wake <-chan struct{}) *statusLoop {
	ctx, cancel := context.WithCancel(life)
	l := &statusLoop{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ask := false; ; {
			if err := w.send('d', statusUpdate(confirmed.Load(), time.Now(), ask)); err != nil {
				return // the reader meets the same fault and makes the stream anew
			}
			select {
			case <-ctx.Done():
				_ = w.send('d', statusUpdate(confirmed.Load(), time.Now(), false)) // a last word; the connection is closed next
				return
			case <-wake:
				ask = false
			case <-tick.C:
				ask = true
			}
		}
	}()
	return l
}

func (l *statusLoop) stop() {
	l.cancel()
	<-l.done
}

// statusUpdate is a standby status update: written, flushed and applied all say what is confirmed, which is never 0. The
// regular ones ask for an answer: an idle server would be silent otherwise, and look like one that is gone.
//
//	'r' | written 8 | flushed 8 | applied 8 | microseconds since 2000 8 | reply at once 1
func statusUpdate(confirmed uint64, now time.Time, ask bool) []byte {
	b := make([]byte, 0, 34)
	b = append(b, 'r')
	for range 3 {
		b = binary.BigEndian.AppendUint64(b, confirmed)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMicro()-pgEpochMicros))
	if ask {
		return append(b, 1)
	}
	return append(b, 0)
}
