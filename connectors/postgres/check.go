package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connectors/debezium"
)

// minServerVersion is the first with pgoutput.
const minServerVersion = 100000

// inspection is what a look at the server found.
type inspection struct {
	findings debezium.Findings
	tables   []tableEntry
	slot     slotState
}

// inspect looks at the server with the connector's rights.
func (s *settings) inspect(ctx context.Context, conn *pgconn.PgConn) (*inspection, error) {
	i := &inspection{}
	if err := s.inspectServer(ctx, conn, i); err != nil {
		return nil, err
	}
	var err error
	if i.tables, err = tables(ctx, conn); err != nil {
		return nil, err
	}
	if i.slot, err = slotOf(ctx, conn, s.slot); err != nil {
		return nil, err
	}
	if err := s.inspectSlots(ctx, conn, i); err != nil {
		return nil, err
	}
	s.inspectTables(i)
	return i, nil
}

func (s *settings) inspectServer(ctx context.Context, conn *pgconn.PgConn, i *inspection) error {
	r, err := oneOf(ctx, conn, `
SELECT current_setting('server_version_num'), current_setting('server_version'), current_setting('wal_level'), current_setting('server_encoding'),
  (SELECT rolsuper OR rolreplication FROM pg_catalog.pg_roles WHERE rolname = current_user),
  EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname IN ('rds_replication', 'rds_superuser') AND pg_has_role(current_user, r.oid, 'USAGE'))`)
	if err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	if version, err := strconv.Atoi(r[0]); err != nil || version < minServerVersion {
		i.findings.Add(true, "database.hostname", fmt.Sprintf("the server is PostgreSQL %s, which has no pgoutput plugin", r[1]), "use PostgreSQL 10 or later")
	}
	if r[2] != "logical" {
		i.findings.Add(true, "database.hostname", fmt.Sprintf("the server's wal_level is %s, not logical", r[2]), "ALTER SYSTEM SET wal_level = 'logical' and restart the server")
	}
	if r[3] != "UTF8" {
		i.findings.Add(false, "database.dbname", fmt.Sprintf("the database's encoding is %s: text that is not valid in it may come out damaged", r[3]), "")
	}
	if r[4] != "t" && r[5] != "t" {
		i.findings.Add(true, "database.user", fmt.Sprintf("user %q may not replicate", s.user), "ALTER ROLE "+quoteIdent(s.user)+" REPLICATION")
	}
	return nil
}

func (s *settings) inspectSlots(ctx context.Context, conn *pgconn.PgConn, i *inspection) error {
	if err := s.refuseSlot(i.slot); err != nil {
		i.findings.Add(true, "slot.name", errors.Unwrap(err).Error(), "")
	}
	if i.slot.lost != "" {
		i.findings.Add(false, "slot.name", s.lostError(i.slot).Error(), "")
	}
	r, err := oneOf(ctx, conn, `SELECT (SELECT count(*) FROM pg_catalog.pg_replication_slots), current_setting('max_replication_slots'), current_setting('max_wal_senders')`)
	if err != nil {
		return fmt.Errorf("look at the server's slots: %w", err)
	}
	used, _ := strconv.Atoi(r[0])
	most, _ := strconv.Atoi(r[1])
	if !i.slot.exists && used >= most && s.SnapshotMode != "initial_only" {
		i.findings.Add(true, "slot.name", fmt.Sprintf("all %d replication slots of the server are taken", most),
			fmt.Sprintf("ALTER SYSTEM SET max_replication_slots = %d and restart the server, or SELECT pg_drop_replication_slot(slot_name) for one that nobody uses", most+10))
	}
	if r[2] == "0" {
		i.findings.Add(true, "database.hostname", "the server's max_wal_senders is 0", "ALTER SYSTEM SET max_wal_senders = 10 and restart the server")
	}
	return nil
}

func (s *settings) inspectTables(i *inspection) {
	wanted := s.captured(i.tables)
	reads := s.SnapshotMode != "no_data"
	for _, t := range wanted {
		switch {
		case !reads:
		case !t.usable:
			i.findings.Add(true, "database.user", fmt.Sprintf("user %q may not use the schema of %s", s.user, t.name), "GRANT USAGE ON SCHEMA "+quoteIdent(t.name.schema)+" TO "+quoteIdent(s.user))
		case !t.readable:
			i.findings.Add(true, "database.user", fmt.Sprintf("user %q may not read %s", s.user, t.name), "GRANT SELECT ON "+t.name.quoted()+" TO "+quoteIdent(s.user))
		}
		if !t.primary && t.identity == 'd' || t.identity == 'n' {
			i.findings.Add(false, "table.include.list", fmt.Sprintf("%s has no replica identity: once it is published, the server refuses UPDATE and DELETE on it", t.name), "ALTER TABLE "+t.name.quoted()+" REPLICA IDENTITY FULL, or give it a primary key")
		}
	}
	for _, name := range s.Tables.Include.Literals() {
		found := false
		for _, t := range i.tables {
			found = found || strings.EqualFold(t.name.String(), name)
		}
		if !found {
			i.findings.Add(true, "table.include.list", fmt.Sprintf("database %q has no table %s%s", s.database, name, nearestTable(name, i.tables)), "")
		}
	}
}

// nearestTable names the tables that might have been meant.
func nearestTable(name string, all []tableEntry) string {
	_, bare, qualified := strings.Cut(name, ".")
	if !qualified {
		bare = name
	}
	var hits []string
	for _, t := range all {
		if builtinSchema(t.name.schema) {
			continue
		}
		if distance(strings.ToLower(t.name.table), strings.ToLower(bare)) <= 2 {
			hits = append(hits, t.name.String())
		}
	}
	switch {
	case len(hits) > 0:
		return "; did you mean " + strings.Join(hits[:min(3, len(hits))], " or ") + "?"
	case !qualified:
		return "; names are schema.table, such as public." + name
	}
	return "; it must be made before, and names are matched without regard to case"
}

// distance is the number of single changes between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := diagonal
			if a[i] != b[k] {
				cost++
			}
			diagonal = row[k+1]
			row[k+1] = min(cost, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
