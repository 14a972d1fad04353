package mysql

import (
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// Keys of Debezium's offset beside the stream's position.
const (
	keySnapshot          = "snapshot"
	keySnapshotCompleted = "snapshot_completed"
)

// maxOffsetEntries is the most that an offset of the stream has.
const maxOffsetEntries = 7

// stored is what an offset says.
type stored struct {
	binlog.Offset
	snapshotting bool              // a snapshot is under way
	all          connect.OffsetMap // the snapshot's progress is in it
}

// readStored reads an offset that this connector or Debezium has stored.
func readStored(m connect.OffsetMap) (stored, error) {
	o, err := binlog.ReadOffset(m)
	return stored{Offset: o, snapshotting: snapshotUnderWay(m), all: m}, err
}

func snapshotUnderWay(m connect.OffsetMap) bool {
	if truth(m.Get(keySnapshotCompleted)) {
		return false
	}
	v := m.Get(keySnapshot)
	if v.Kind() == connect.String {
		return strings.EqualFold(v.Str(), "INITIAL") || strings.EqualFold(v.Str(), "true")
	}
	return v.Bool()
}

func truth(v connect.Value) bool {
	return v.Bool() || v.Kind() == connect.String && strings.EqualFold(v.Str(), "true")
}

// text gives a position for logs.
func text(o binlog.Offset) string { return o.Append(nil).String() }
