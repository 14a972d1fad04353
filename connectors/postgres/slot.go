package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connect"
)

// slotState is what the server says of the replication slot.
type slotState struct {
	exists    bool
	plugin    string
	database  string
	active    bool
	pid       string
	confirmed uint64
	lost      string // why its WAL is gone; "" if it is not
	end       uint64 // where the server's WAL ends
}

// walEndSQL asks where the server's WAL ends.
const walEndSQL = `SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END`

func slotOf(ctx context.Context, conn *pgconn.PgConn, name string) (slotState, error) {
	var end uint64
	r, err := oneOf(ctx, conn, walEndSQL)
	if err != nil {
		return slotState{}, fmt.Errorf("read the end of the WAL: %w", err)
	}
	if end, err = parseLSN(r[0]); err != nil {
		return slotState{}, err
	}
	r, err = oneOf(ctx, conn, `
SELECT plugin, database, active, active_pid, confirmed_flush_lsn, to_jsonb(s)->>'wal_status', to_jsonb(s)->>'invalidation_reason'
FROM pg_catalog.pg_replication_slots s WHERE slot_name = $1`, name)
	if err != nil {
		return slotState{}, fmt.Errorf("read replication slot: %w", err)
	}
	if r == nil {
		return slotState{end: end}, nil
	}
	s := slotState{exists: true, end: end, plugin: r[0], database: r[1], active: r[2] == "t", pid: r[3]}
	if r[5] == "lost" || r[6] != "" {
		if s.lost = r[6]; s.lost == "" {
			s.lost = "its WAL was removed (max_slot_wal_keep_size)"
		}
	}
	if r[4] == "" {
		if s.lost == "" && s.plugin != "" {
			s.lost = "it has no confirmed position"
		}
		return s, nil
	}
	s.confirmed, err = parseLSN(r[4])
	return s, err
}

// slotSQL is the command that makes the slot; its answer has the consistent point and the exported snapshot's name.
func (s *settings) slotSQL(export bool) string {
	if s.failover {
		how := "nothing"
		if export {
			how = "export"
		}
		return fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput (SNAPSHOT '%s', FAILOVER true)", quoteIdent(s.slot), how)
	}
	how := "NOEXPORT_SNAPSHOT"
	if export {
		how = "EXPORT_SNAPSHOT"
	}
	return fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s", quoteIdent(s.slot), how)
}

// slotMaker makes the slot. The server waits for all transactions that run to end, so it may take several Polls.
type slotMaker struct {
	wire   *wire // idle and open for as long as the exported snapshot is wanted
	answer answer
}

// step waits for the slot until ctx ends; done tells that it is there.
func (m *slotMaker) step(ctx context.Context) (done bool, err error) {
	err = m.wire.rows(ctx, time.Now().Add(time.Hour), &m.answer)
	switch {
	case errors.Is(err, errNoFrame):
		return false, nil
	case err != nil:
		return false, err
	case len(m.answer.rows) != 1 || len(m.answer.rows[0]) < 3:
		return false, fmt.Errorf("make replication slot: the server answered %q", m.answer.rows)
	}
	return true, nil
}

func (m *slotMaker) consistentPoint() (uint64, error) { return parseLSN(m.answer.rows[0][1]) }

func (m *slotMaker) snapshotName() string { return m.answer.rows[0][2] }

// decision is how a task starts.
type decision struct {
	phase    phase
	from     position // of phaseStream
	makeSlot bool
	dropSlot bool   // a lost one, before
	why      string // for the log
}

// decide chooses how to start from the mode, the stored offset (nil: none) and the slot.
func (s *settings) decide(at *stored, slot slotState) (decision, error) {
	wantsData := s.SnapshotMode != "no_data"
	switch {
	case s.SnapshotMode == "initial_only" && at != nil && at.snapshotDone:
		return decision{phase: phaseFinished, why: "snapshot.mode is initial_only and the snapshot is complete"}, nil
	case s.SnapshotMode == "initial_only":
		return decision{phase: phaseSnapshot, why: "snapshot only"}, nil
	case at == nil, wantsData && !at.snapshotDone:
		return s.decideFresh(at, slot, wantsData)
	case !slot.exists || slot.lost != "":
		return s.decideLost(at, slot)
	case at.commit > slot.end:
		if s.SnapshotMode == "when_needed" || s.SnapshotMode == "always" {
			return decision{phase: phaseSnapshot, from: position{commit: slot.confirmed, kind: typeCommit}, why: "the server's WAL ends before the stored position"}, nil
		}
		return decision{}, fmt.Errorf("the server's WAL ends at %s, before the stored position %s: the server was restored from a backup, or is another one; "+
			"set snapshot.mode=when_needed to read the tables again, or delete the connector's offsets to start anew", formatLSN(slot.end), formatLSN(at.commit))
	case slot.confirmed > at.commit && !s.trustSlot:
		if s.SnapshotMode == "when_needed" || s.SnapshotMode == "always" {
			return decision{phase: phaseSnapshot, from: position{commit: slot.confirmed, kind: typeCommit}, why: "the slot is ahead of the stored position, so changes are missing"}, nil
		}
		return decision{}, fmt.Errorf("replication slot %q confirms %s, which is ahead of the stored position %s: it was probably dropped and made again, and the changes between are gone; "+
			"to read the tables again, set snapshot.mode=when_needed or delete the connector's offsets; to go on without those changes, set offset.mismatch.strategy=trust_slot", s.slot, formatLSN(slot.confirmed), formatLSN(at.commit))
	case slot.confirmed > at.commit:
		return decision{phase: phaseStream, from: position{commit: slot.confirmed, kind: typeCommit}, why: "offset.mismatch.strategy trusts the slot"}, nil
	case s.SnapshotMode == "always":
		return decision{phase: phaseSnapshot, from: at.position, why: "snapshot.mode is always"}, nil
	}
	return decision{phase: phaseStream, from: at.position, why: "stored position"}, nil
}

// decideFresh is for no stored position, or one inside a snapshot.
func (s *settings) decideFresh(at *stored, slot slotState, wantsData bool) (decision, error) {
	d := decision{phase: phaseStream, why: "no stored position"}
	if wantsData {
		d.phase = phaseSnapshot
	}
	if at != nil {
		d.why = "the snapshot was cut short"
	}
	switch {
	case !slot.exists:
		d.makeSlot = true
	case slot.lost != "" && s.SnapshotMode != "when_needed":
		return d, s.lostError(slot)
	case slot.lost != "":
		d.dropSlot, d.makeSlot = true, true
	default:
		d.from = position{commit: slot.confirmed, kind: typeCommit}
	}
	return d, nil
}

// decideLost is for a stored position whose slot is gone.
func (s *settings) decideLost(at *stored, slot slotState) (decision, error) {
	if s.SnapshotMode == "when_needed" || s.SnapshotMode == "always" {
		return decision{phase: phaseSnapshot, makeSlot: true, dropSlot: slot.exists, why: "the replication slot of the stored position is lost"}, nil
	}
	if slot.exists {
		return decision{}, s.lostError(slot)
	}
	return decision{}, fmt.Errorf("replication slot %q does not exist any more, so the changes since the stored position %s are lost; "+
		"set snapshot.mode=when_needed to read the tables again, or delete the connector's offsets to start anew", s.slot, formatLSN(at.commit))
}

func (s *settings) lostError(slot slotState) error {
	return fmt.Errorf("replication slot %q is lost: %s; set snapshot.mode=when_needed to read the tables again, or drop it: SELECT pg_drop_replication_slot(%s)", s.slot, slot.lost, strings.TrimSpace(quoteLiteral(s.slot)))
}

// refuseSlot says what keeps a slot that is there from being used.
func (s *settings) refuseSlot(slot slotState) error {
	switch {
	case !slot.exists:
		return nil
	case slot.plugin != "pgoutput":
		return connect.BadConfig("slot.name", fmt.Errorf("replication slot %q is for the plugin %q, not pgoutput; choose another slot.name, or drop it: SELECT pg_drop_replication_slot(%s)", s.slot, slot.plugin, strings.TrimSpace(quoteLiteral(s.slot))))
	case slot.database != s.database:
		return connect.BadConfig("slot.name", fmt.Errorf("replication slot %q belongs to the database %q, not %q; choose another slot.name", s.slot, slot.database, s.database))
	}
	return nil
}
