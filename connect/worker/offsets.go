package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// sourceOffsets is the offsets topic as a map: what every source connector stored, found by the meaning of its
// partition. Java finds an offset by its key's bytes, so a key that was found is used again as it is.
type sourceOffsets struct {
	table store
	log   *slog.Logger

	mu   sync.RWMutex
	rows map[string]map[string]*offsetRow // connector -> canonical partition -> row
}

// offsetRow is one source partition.
type offsetRow struct {
	key       []byte // as in the topic
	partition connect.OffsetMap
	offset    connect.OffsetMap // nil: forgotten
	at        time.Time         // of the newest record; two keys of equal meaning may lie in different partitions
}

func newSourceOffsets(log *slog.Logger) *sourceOffsets {
	return &sourceOffsets{log: log, rows: map[string]map[string]*offsetRow{}}
}

// apply takes a record of the topic.
func (o *sourceOffsets) apply(r *kgo.Record) {
	name, partition, err := parseOffsetKey(r.Key)
	var offset connect.OffsetMap
	if err == nil && r.Value != nil {
		offset, err = connect.ParseOffsetMap(r.Value)
	}
	if err != nil {
		o.log.Warn("offset record is not understood", "key", string(r.Key), "error", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows[name] == nil {
		o.rows[name] = map[string]*offsetRow{}
	}
	id := canonical(partition)
	row := o.rows[name][id]
	if row != nil && !bytes.Equal(row.key, r.Key) && r.Timestamp.Before(row.at) {
		return
	}
	o.rows[name][id] = &offsetRow{key: r.Key, partition: partition, offset: offset, at: r.Timestamp}
}

// parseOffsetKey reads ["name", {partition}].
func parseOffsetKey(key []byte) (string, connect.OffsetMap, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(key, &parts); err != nil {
		return "", nil, err
	}
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("the key has %d parts, not 2", len(parts))
	}
	var name string
	if err := json.Unmarshal(parts[0], &name); err != nil {
		return "", nil, err
	}
	partition, err := connect.ParseOffsetMap(parts[1])
	return name, partition, err
}

// offsetKey makes the key of a partition that has none yet.
func offsetKey(name string, partition connect.OffsetMap) []byte {
	quoted := connect.OffsetMap{{Name: name}}.AppendJSON(nil) // {"name":null}
	key := append([]byte{'['}, quoted[1:len(quoted)-len(":null}")]...)
	key = append(key, ',')
	return append(partition.AppendJSON(key), ']')
}

// canonical gives a text that is equal for maps of equal meaning.
func canonical(m connect.OffsetMap) string {
	sorted := slices.Clone(m)
	slices.SortStableFunc(sorted, func(a, b connect.OffsetEntry) int { return strings.Compare(a.Name, b.Name) })
	return string(sorted.AppendJSON(nil))
}

// of lists what is stored for a connector, without what was forgotten.
func (o *sourceOffsets) of(name string) []connect.SourceOffset {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var out []connect.SourceOffset
	for _, row := range o.rows[name] {
		if row.offset != nil {
			out = append(out, connect.SourceOffset{Partition: row.partition, Offset: row.offset})
		}
	}
	slices.SortFunc(out, func(a, b connect.SourceOffset) int {
		return strings.Compare(canonical(a.Partition), canonical(b.Partition))
	})
	return out
}

// put stores offsets durably; a nil offset forgets its partition.
func (o *sourceOffsets) put(ctx context.Context, name string, offsets []connect.SourceOffset) error {
	entries := make([]entry, len(offsets))
	o.mu.RLock()
	for i, so := range offsets {
		e := entry{}
		if row := o.rows[name][canonical(so.Partition)]; row != nil {
			e.key = row.key
		} else {
			e.key = offsetKey(name, so.Partition)
		}
		if so.Offset != nil {
			e.value = so.Offset.AppendJSON(nil)
		}
		entries[i] = e
	}
	o.mu.RUnlock()
	return o.table.put(ctx, entries...)
}
