package schema

import (
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
)

// AtOrBefore says whether a history record's position is one that the offset, where
// reading goes on, has behind it: the record's statement then belongs to the structure
// at the offset. contains says of two GTID sets whether the first has all of the
// second.
//
// It decides as Debezium does: by GTID sets where both have them; a position without
// is older than one with; else by file, position, event and row. Positions of other
// servers can only be compared by time. Unlike Debezium it looks at the place too where
// the sets are equal: a statement that swaps names must not be applied twice.
func AtOrBefore(record, offset connect.OffsetMap, contains func(set, subset string) bool) bool {
	ours, theirs := record.Get("gtids").Str(), offset.Get("gtids").Str()
	switch {
	case theirs != "" && ours != "" && !contains(theirs, ours):
		return false
	case theirs != "" && ours != "" && !contains(ours, theirs):
		return true
	case theirs != "" && ours != "":
		// The same set. A record's set lacks its own statement, so this one can be the
		// very next: its place decides. A snapshot's structure was there before all.
		if record.Has("snapshot") || offset.Has("snapshot") {
			return record.Has("snapshot")
		}
	case theirs != "":
		return true
	case ours != "":
		return false
	}
	if a, b := record.Get("server_id").Int(), offset.Get("server_id").Int(); a != 0 && b != 0 && a != b {
		return record.Get("ts_sec").Int() <= offset.Get("ts_sec").Int()
	}
	a, b := fileNumber(record.Get("file").Str()), fileNumber(offset.Get("file").Str())
	if a != b {
		return a < b
	}
	for _, name := range [...]string{"pos", "event", "row"} {
		if a, b := record.Get(name).Int(), offset.Get(name).Int(); a != b {
			return a < b
		}
	}
	return true
}

// fileNumber gives the number that a binlog file's name ends with.
func fileNumber(name string) int64 {
	n, err := strconv.ParseInt(name[strings.LastIndexByte(name, '.')+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
