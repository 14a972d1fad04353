package meta

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/weirlog/weir/core/record"
	"github.com/weirlog/weir/storage"
)

// votersKey is the key of an entry that changes the members.
const votersKey = "voters"

// raftLog is the metadata's log as raft sees it: the entries behind the base, in memory too, since raft asks for them under the
// quorum's lock. Entry i is the record at offset i-2, alone in its batch, whose leader epoch is the entry's term-1:
//
//	key null, value    a command
//	key null, null     the first entry of a leader's term
//	key "voters"       a change of the members, a raftpb.ConfChangeV2 (null: the second step of one in two)
//
// What is put is in memory at once, durable with its ticket; raft asks only for what it was told is durable.
type raftLog struct {
	store   *storage.Store
	log     *storage.Log
	state   hardState
	isStale bool              // the state is newer than the one put
	conf    *raftpb.ConfState // as of what is applied; what raft begins with
	entries []*raftpb.Entry   // immutable; from base.Index+1 on
}

var _ raft.Storage = (*raftLog)(nil)

func offsetOf(index uint64) int64 { return int64(index) - 2 }
func indexOf(offset int64) uint64 { return uint64(offset) + 2 }
func termOf(epoch int32) uint64   { return uint64(epoch + 1) }
func epochOf(term uint64) int32   { return int32(term) - 1 }

func (l *raftLog) base() *base       { return &l.state.Base }
func (l *raftLog) lastIndex() uint64 { return l.state.Base.Index + uint64(len(l.entries)) }

func (l *raftLog) lastTerm() uint64 {
	t, _ := l.Term(l.lastIndex()) // which is there
	return t
}

// load reads the log, and makes it begin at the base. A folder without state is one from before there was any: a sole voter's.
func (l *raftLog) load(hasState bool) error {
	if !hasState {
		l.state.Base = firstBase(l.state.Base.Voters)
		if start := l.log.StartOffset(); start > 0 { // nobody else has, or needs, the entry before
			l.state.Base.Index, l.state.Base.Term = indexOf(start-1), termOf(max(0, l.log.EpochAt(start)))
		}
	} else if err := l.align(); err != nil {
		return err
	}
	next := offsetOf(l.base().Index + 1)
	err := record.Scan(l.log.Read, max(0, next), l.log.EndOffset(), func(offset int64, key, value []byte) error {
		if offset != next+int64(len(l.entries)) {
			return fmt.Errorf("metadata entry %d is missing", next+int64(len(l.entries)))
		}
		e, err := readEntry(offset, l.log.EpochAt(offset), key, value)
		l.entries = append(l.entries, e)
		return err
	})
	if err != nil {
		return err
	}
	if end := l.log.EndOffset(); len(l.entries) > 0 && indexOf(end) != l.lastIndex()+1 {
		return fmt.Errorf("metadata log ends at %d, its last entry is %d", end, offsetOf(l.lastIndex()))
	}
	l.conf = l.base().confState()
	l.state.Term = max(l.state.Term, l.base().Term, l.lastTerm())
	l.state.Commit = min(max(l.state.Commit, l.base().Index), l.lastIndex())
	return nil
}

// align makes the log begin behind the base, where a crash came between the two.
func (l *raftLog) align() error {
	b := l.base()
	first := max(0, offsetOf(b.Index+1))
	switch start, end := l.log.StartOffset(), l.log.EndOffset(); {
	case start > first:
		return fmt.Errorf("metadata log starts at %d, what raft knows of it ends at %d", start, first)
	case start == first:
		return nil
	case end < first, l.log.EpochAt(first-1) != epochOf(b.Term): // a snapshot, which is of another history than the log
		_, err := l.log.Restart(first)
		return err
	}
	_, err := l.log.AdvanceStart(first)
	return err
}

func readEntry(offset int64, epoch int32, key, value []byte) (*raftpb.Entry, error) {
	e := &raftpb.Entry{Index: new(indexOf(offset)), Term: new(termOf(epoch)), Type: raftpb.EntryNormal.Enum(), Data: slices.Clone(value)}
	switch {
	case string(key) == votersKey:
		e.Type = raftpb.EntryConfChangeV2.Enum()
	case key != nil:
		return nil, fmt.Errorf("metadata entry %d: %w: key %q", offset, ErrVersion, key)
	}
	return e, nil
}

// put puts an entry, at the log's end or in the place of others.
func (l *raftLog) put(e *raftpb.Entry, now time.Time) (ticket storage.Ticket, err error) {
	r := record.Record{Value: e.GetData()}
	if len(r.Value) == 0 {
		r.Value = nil
	}
	if e.GetType() != raftpb.EntryNormal {
		r.Key = []byte(votersKey)
	}
	if index := e.GetIndex(); index <= l.lastIndex() {
		if _, err := l.log.Truncate(offsetOf(index)); err != nil {
			return 0, err
		}
		n := int(index - l.base().Index - 1)
		l.entries = l.entries[:n:n]
	}
	if e.GetIndex() != l.lastIndex()+1 {
		return 0, fmt.Errorf("metadata entry %d behind %d", e.GetIndex(), l.lastIndex())
	}
	batch := storage.Batch(record.AppendBatch(nil, []record.Record{r}, now))
	batch.SetBaseOffset(offsetOf(e.GetIndex()))
	batch.SetLeaderEpoch(epochOf(e.GetTerm()))
	app, err := l.log.AppendAt(batch, now)
	if err != nil {
		return 0, err
	}
	l.entries = append(l.entries, e)
	return app.Ticket, nil
}

// putState puts the state as it is.
func (l *raftLog) putState() (storage.Ticket, error) {
	ticket, err := l.state.put(l.store)
	if err == nil {
		l.isStale = false
	}
	return ticket, err
}

// begin makes the log begin behind a base that lies in it.
func (l *raftLog) begin(b base) error {
	old := *l.base()
	l.state.Base = b
	if _, err := l.putState(); err != nil {
		l.state.Base = old
		return err
	}
	l.entries = slices.Clone(l.entries[b.Index-old.Index:])
	return nil
}

// trim lets go what lies before the base. What fails is tried again the next time.
func (l *raftLog) trim() {
	if first := offsetOf(l.base().Index + 1); first > l.log.StartOffset() {
		_, _ = l.log.AdvanceStart(first)
	}
}

// restart empties the log and makes it begin behind a base of another history.
func (l *raftLog) restart(b base) (storage.Ticket, error) {
	old := l.state
	l.state.Base, l.state.Commit = b, b.Index
	if _, err := l.putState(); err != nil {
		l.state = old
		return 0, err
	}
	l.entries = nil
	return l.log.Restart(offsetOf(b.Index + 1))
}

// InitialState implements raft.Storage.
func (l *raftLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return &raftpb.HardState{Term: new(l.state.Term), Vote: new(uint64(l.state.Vote)), Commit: new(l.state.Commit)}, l.conf, nil
}

// Entries implements raft.Storage.
func (l *raftLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	first := l.base().Index + 1
	switch {
	case lo < first:
		return nil, raft.ErrCompacted
	case hi > l.lastIndex()+1:
		return nil, raft.ErrUnavailable
	}
	entries := l.entries[lo-first : hi-first]
	size := uint64(0)
	for i, e := range entries {
		if size += uint64(proto.Size(e)); size > maxSize && i > 0 {
			entries = entries[:i]
			break
		}
	}
	return entries[:len(entries):len(entries)], nil
}

// Term implements raft.Storage.
func (l *raftLog) Term(i uint64) (uint64, error) {
	b := l.base()
	switch {
	case i < b.Index:
		return 0, raft.ErrCompacted
	case i == b.Index:
		return b.Term, nil
	case i > l.lastIndex():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-b.Index-1].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (l *raftLog) LastIndex() (uint64, error) { return l.lastIndex(), nil }

// FirstIndex implements raft.Storage.
func (l *raftLog) FirstIndex() (uint64, error) { return l.base().Index + 1, nil }

// Snapshot implements raft.Storage: the base. Everything else comes behind it as entries.
func (l *raftLog) Snapshot() (*raftpb.Snapshot, error) {
	b := l.base()
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(b.Index), Term: new(b.Term), ConfState: b.confState()}}, nil
}
