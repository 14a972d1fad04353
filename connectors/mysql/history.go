package mysql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// history keeps what happened to the structure of tables, so that a task that starts
// again reads old rows by the structure of their time. Its records are Debezium's, and
// so are the places where they can be: a topic, or a file of one record a line.
type history struct {
	store
	format    schema.Format
	partition connect.OffsetMap
	contains  func(set, subset string) bool
	log       *slog.Logger
	// cut is the position of the first snapshot behind which there is no mark of a complete one: what it gave of rows may be
	// in the log though no offset was stored, also when statements of the stream follow. Nil for none. Valid after look,
	// recover or write.
	cut connect.OffsetMap
}

// store is where records are. All are used by one goroutine.
type store struct {
	// exists says whether there is a record.
	exists func(context.Context) (bool, error)
	// each calls f with every record that there was when it was called, oldest first,
	// and where it stands, for errors; the bytes are valid until f returns. A record
	// without bytes marks a complete snapshot; Debezium passes over it.
	each func(ctx context.Context, f func(where string, record []byte) error) error
	// append adds records at the end; they are durable when it returns.
	append func(ctx context.Context, records [][]byte) error
	close  func()
	indent bool // records are indented, as Debezium has them in a topic
}

// openHistory opens the history, and makes its topic if it isn't there.
func openHistory(ctx context.Context, s *settings, in connect.Task) (*history, error) {
	h := &history{format: schema.Format{Dialect: s.schemaDialect(), Comments: s.comments}, partition: debezium.Partition(s.Prefix),
		contains: binlog.SetContains(s.dialect), log: in.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	switch s.history.kind {
	case "file":
		h.store = fileStore(s.history.file)
	case "memory":
		h.store = memoryStore()
	default:
		topic, err := openTopic(ctx, &s.history, h.log)
		if err != nil {
			return nil, fmt.Errorf("open the schema history topic %s: %w", s.history.topic, err)
		}
		h.store = topic.store()
	}
	return h, nil
}

// read calls f with the records of this source, oldest first, and finds cut. What can't be
// read is passed over, with a warning.
func (h *history) read(ctx context.Context, f func(where string, r *schema.HistoryRecord) error) error {
	h.cut = nil
	return h.each(ctx, func(where string, data []byte) error {
		if len(data) == 0 {
			h.cut = nil
			return nil
		}
		r, err := schema.ParseRecord(data)
		if err != nil {
			h.log.Warn("record of the schema history passed over", "at", where, "error", err)
			return nil
		}
		if !r.Source.Equal(h.partition) {
			return nil // another source's, in the same topic
		}
		h.follow(r.Position)
		return f(where, r)
	})
}

// follow finds cut behind one more record.
func (h *history) follow(position connect.OffsetMap) {
	if h.cut == nil && snapshotUnderWay(position) {
		h.cut = position
	}
}

// look finds cut.
func (h *history) look(ctx context.Context) error {
	return h.read(ctx, func(string, *schema.HistoryRecord) error { return nil })
}

// complete marks the last snapshot as complete: its offset is stored.
func (h *history) complete(ctx context.Context) error {
	if err := h.append(ctx, [][]byte{nil}); err != nil {
		return err
	}
	h.cut = nil
	return nil
}

// recover replays into the catalog what had happened at the offset from which the
// stream goes on. A structure that is missing is told when its rows come. alive is
// called for each record.
func (h *history) recover(ctx context.Context, c *schema.Catalog, upTo binlog.Offset, alive func()) error {
	offset := upTo.Append(nil)
	return h.read(ctx, func(where string, r *schema.HistoryRecord) error {
		alive()
		if !schema.AtOrBefore(r.Position, offset, h.contains) {
			return nil
		}
		var unparsed *schema.UnparsedError
		if err := c.Replay(r); errors.As(err, &unparsed) {
			h.log.Debug("statement of the schema history not understood", "at", where, "error", err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		return nil
	})
}

// write adds records; they are durable when it returns.
func (h *history) write(ctx context.Context, records []schema.HistoryRecord) error {
	encoded := make([][]byte, len(records))
	for i := range records {
		encoded[i] = h.format.Append(nil, &records[i])
		if !h.indent {
			encoded[i] = compactJSON(encoded[i])
		}
	}
	if err := h.append(ctx, encoded); err != nil {
		return err
	}
	for i := range records {
		h.follow(records[i].Position)
	}
	return nil
}

// close gives up the connections; the history is not used after it.
func (h *history) close(context.Context) error {
	h.store.close()
	return nil
}
