package postgres

import (
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
)

// Keys of Debezium's offset.
const (
	keyLSN               = "lsn"
	keyLSNProc           = "lsn_proc"
	keyLSNCommit         = "lsn_commit"
	keyMessageType       = "messageType"
	keyTxID              = "txId"
	keyTSMicros          = "ts_usec"
	keySameLSN           = "lsn_events_processed"
	keySnapshot          = "snapshot"
	keySnapshotCompleted = "snapshot_completed"
	keyLastSnapshot      = "last_snapshot_record"
)

// Message types as offsets spell them.
const (
	typeBegin    = "BEGIN"
	typeInsert   = "INSERT"
	typeUpdate   = "UPDATE"
	typeDelete   = "DELETE"
	typeCommit   = "COMMIT"
	typeTruncate = "TRUNCATE"
)

// position is a place between two changes in the stream of committed transactions: all transactions that end at or
// before commit are done, and of the transaction xid, if inside, the changes below lsn and the first same ones at lsn.
type position struct {
	commit uint64 // end LSN of the last complete transaction: where the stream is started
	inside bool   // part of the transaction xid, which follows commit, is done
	xid    uint32
	lsn    uint64 // of the last change that is done; inside only
	same   int    // how many changes with that very LSN are done
	kind   string // of the last message
	micros int64  // commit time
}

// stored is what an offset says.
type stored struct {
	position
	snapshotDone bool // a snapshot is not under way
}

func longEntry(name string, v uint64) connect.OffsetEntry {
	return connect.OffsetEntry{Name: name, Value: connect.Int64Value(int64(v))}
}

// offset gives the position as Debezium stores it, appended to entries.
func (p *position) offset(entries []connect.OffsetEntry) []connect.OffsetEntry {
	last := p.commit
	if p.inside {
		last = p.lsn
	}
	entries = append(entries, longEntry(keyLSNProc, last),
		connect.OffsetEntry{Name: keyMessageType, Value: connect.StringValue(p.kind)},
		longEntry(keyLSNCommit, p.commit), longEntry(keyLSN, last))
	if p.xid != 0 {
		entries = append(entries, longEntry(keyTxID, uint64(p.xid)))
	}
	if p.micros != 0 {
		entries = append(entries, connect.OffsetEntry{Name: keyTSMicros, Value: connect.Int64Value(p.micros)})
	}
	if p.inside && p.same > 0 {
		entries = append(entries, longEntry(keySameLSN, uint64(p.same)))
	}
	return entries
}

// maxOffsetEntries is the most that offset appends.
const maxOffsetEntries = 7

// snapshotOffset is the offset of a snapshot at the LSN from which the stream will go on.
func snapshotOffset(lsn uint64, xid uint64, micros int64, completed bool) connect.OffsetMap {
	m := connect.OffsetMap{
		{Name: keySnapshot, Value: connect.StringValue("INITIAL")},
		{Name: keyLastSnapshot, Value: connect.BoolValue(completed)},
		{Name: keySnapshotCompleted, Value: connect.BoolValue(completed)},
		longEntry(keyLSN, lsn),
	}
	if xid != 0 {
		m = append(m, longEntry(keyTxID, xid))
	}
	return append(m, connect.OffsetEntry{Name: keyTSMicros, Value: connect.Int64Value(micros)})
}

// readOffset reads an offset that this connector or Debezium has stored.
func readOffset(m connect.OffsetMap) (stored, error) {
	long := func(name string) (uint64, bool, error) {
		v := m.Get(name)
		if v.IsNull() {
			return 0, false, nil
		}
		switch v.Kind() {
		case connect.Int8, connect.Int16, connect.Int32, connect.Int64:
			return uint64(v.Int()), true, nil
		}
		return 0, false, fmt.Errorf("stored offset %s: %s is not a whole number", m, name)
	}
	var s stored
	lsn, hasLSN, err := long(keyLSN)
	if err != nil {
		return s, err
	}
	proc, hasProc, err := long(keyLSNProc)
	if err != nil {
		return s, err
	}
	commit, hasCommit, err := long(keyLSNCommit)
	if err != nil {
		return s, err
	}
	xid, _, err := long(keyTxID)
	if err != nil {
		return s, err
	}
	same, hasSame, err := long(keySameLSN)
	if err != nil {
		return s, err
	}
	if !hasLSN && !hasProc && !hasCommit {
		return s, fmt.Errorf("stored offset %s has none of lsn, lsn_proc and lsn_commit", m)
	}
	s.micros = m.Get(keyTSMicros).Int()
	s.kind = m.Get(keyMessageType).Str()
	s.snapshotDone = !snapshotUnderWay(m)
	switch {
	case hasCommit:
		s.commit = commit
	case hasProc:
		s.commit = proc
	default:
		s.commit = lsn
	}
	switch s.kind {
	case typeCommit, typeBegin, "":
	default:
		if !hasCommit || !hasLSN || xid == 0 {
			break // nothing tells which transaction it is: all after commit comes again
		}
		s.inside, s.lsn, s.same = true, lsn, int(same)
		if !hasSame {
			s.same = 1
		}
	}
	s.xid = uint32(xid)
	return s, nil
}

func snapshotUnderWay(m connect.OffsetMap) bool {
	if truth(m.Get(keySnapshotCompleted)) || truth(m.Get(keyLastSnapshot)) {
		return false
	}
	v := m.Get(keySnapshot)
	switch {
	case v.Kind() == connect.String:
		return strings.EqualFold(v.Str(), "INITIAL") || strings.EqualFold(v.Str(), "true")
	}
	return v.Bool()
}

func truth(v connect.Value) bool {
	return v.Bool() || v.Kind() == connect.String && strings.EqualFold(v.Str(), "true")
}

// flushable gives the LSN up to which the server may forget when an offset is durable: the end of the last transaction
// that is complete; 0 for none.
func flushable(m connect.OffsetMap) uint64 {
	s, err := readOffset(m)
	if err != nil || !s.snapshotDone {
		return 0
	}
	return s.commit
}

// formatLSN and parseLSN convert to and from the server's text form, such as 16/B374D848.
func formatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", uint32(lsn>>32), uint32(lsn)) }

func parseLSN(s string) (uint64, error) {
	var high, low uint32
	if n, err := fmt.Sscanf(s, "%X/%X", &high, &low); err != nil || n != 2 {
		return 0, fmt.Errorf("%q is not an LSN", s)
	}
	return uint64(high)<<32 | uint64(low), nil
}
