package binlog

import (
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
)

// Offset is a restart point in Debezium's terms. File and Pos are where the transaction begins of which Event events and
// Row rows of the next Rows event are done, or, with both 0, where the next one may begin; GTIDs are the transactions that
// are done ("" where they aren't known).
type Offset struct {
	File  string
	Pos   uint64
	GTIDs string
	Event int
	Row   int

	ServerID uint32 // of the last event
	Seconds  int64  // of the last event
}

// Keys of Debezium's offset.
const (
	keyFile     = "file"
	keyPos      = "pos"
	keyGTIDs    = "gtids"
	keyEvent    = "event"
	keyRow      = "row"
	keyServerID = "server_id"
	keySeconds  = "ts_sec"
)

// Append appends the offset's entries, as Debezium stores them.
func (o Offset) Append(m connect.OffsetMap) connect.OffsetMap {
	long := func(name string, v int64) {
		m = append(m, connect.OffsetEntry{Name: name, Value: connect.Int64Value(v)})
	}
	if o.Seconds != 0 {
		long(keySeconds, o.Seconds)
	}
	m = append(m, connect.OffsetEntry{Name: keyFile, Value: connect.StringValue(o.File)})
	long(keyPos, int64(o.Pos))
	if o.GTIDs != "" {
		m = append(m, connect.OffsetEntry{Name: keyGTIDs, Value: connect.StringValue(o.GTIDs)})
	}
	if o.Row != 0 {
		long(keyRow, int64(o.Row))
	}
	if o.ServerID != 0 {
		long(keyServerID, int64(o.ServerID))
	}
	if o.Event != 0 {
		long(keyEvent, int64(o.Event))
	}
	return m
}

// ReadOffset reads an offset that this package or Debezium has stored. Entries of others are left alone.
func ReadOffset(m connect.OffsetMap) (Offset, error) {
	var o Offset
	var err error
	long := func(name string) int64 {
		switch v := m.Get(name); v.Kind() {
		case connect.Null:
			return 0
		case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
			return max(v.Int(), 0) // of a compressed transaction Debezium may store a place before 0
		}
		err = fmt.Errorf("stored offset %s: %s is not a whole number", m, name)
		return 0
	}
	o.File = m.Get(keyFile).Str()
	o.GTIDs = strings.Join(strings.Fields(m.Get(keyGTIDs).Str()), "")
	o.Pos = uint64(long(keyPos))
	o.Event = int(long(keyEvent))
	o.Row = int(long(keyRow))
	o.ServerID = uint32(long(keyServerID))
	o.Seconds = long(keySeconds)
	if err == nil && o.File == "" && o.GTIDs == "" {
		err = fmt.Errorf("stored offset %s has neither file nor gtids", m)
	}
	return o, err
}
