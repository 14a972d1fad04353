package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirlog/weir/connect"
)

// publishedTable is how a publication carries a table.
type publishedTable struct {
	columns   []string // nil: all
	rowFilter string   // "" for none
}

// published lists the tables of a publication.
func published(ctx context.Context, conn *pgconn.PgConn, publication string) (map[tableName]publishedTable, error) {
	rows, err := rowsOf(ctx, conn, `SELECT schemaname, tablename, to_jsonb(p)->'attnames', to_jsonb(p)->>'rowfilter'
FROM pg_catalog.pg_publication_tables p WHERE pubname = $1`, publication)
	if err != nil {
		return nil, fmt.Errorf("read publication: %w", err)
	}
	out := make(map[tableName]publishedTable, len(rows))
	for _, r := range rows {
		p := publishedTable{rowFilter: r[3]}
		if r[2] != "" {
			if err := json.Unmarshal([]byte(r[2]), &p.columns); err != nil {
				return nil, fmt.Errorf("read publication: %w", err)
			}
		}
		out[tableName{r[0], r[1]}] = p
	}
	return out, nil
}

// ensurePublication makes the publication or brings it in step, as publication.autocreate.mode says.
func (s *settings) ensurePublication(ctx context.Context, conn *pgconn.PgConn, all []tableEntry, log *slog.Logger) error {
	row, err := oneOf(ctx, conn, `SELECT puballtables, pubinsert, pubupdate, pubdelete, coalesce(to_jsonb(p)->>'pubviaroot', 'false')
FROM pg_catalog.pg_publication p WHERE pubname = $1`, s.publication)
	if err != nil {
		return fmt.Errorf("read publication: %w", err)
	}
	if row != nil {
		s.heed(row, log)
	}
	wanted := s.captured(all)
	if row != nil {
		if s.autocreate == "filtered" && row[0] != "t" {
			return s.stepPublication(ctx, conn, wanted, log)
		}
		return nil
	}
	sql := s.publicationSQL(wanted)
	switch {
	case s.autocreate == "disabled":
		return connect.BadConfig("publication.name", fmt.Errorf("publication %q does not exist and publication.autocreate.mode is disabled; make it: %s", s.publication, s.filteredSQL(wanted)))
	case sql == "":
		return connect.BadConfig("table.include.list", errors.New("no table to publish: the lists leave out every table of the database"))
	}
	err = execute(ctx, conn, sql)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		log.Info("publication made", "publication", s.publication, "mode", s.autocreate)
		return nil
	case errors.As(err, &pg) && pg.Code == stateDuplicate:
		return nil
	case errors.As(err, &pg) && pg.Code == stateNoRights && s.autocreate == "all_tables":
		return connect.BadConfig("publication.autocreate.mode", fmt.Errorf("user %q can't make a publication for all tables (%s); as a superuser run: %s; or set publication.autocreate.mode=filtered", s.user, pg.Message, sql))
	case errors.As(err, &pg) && pg.Code == stateNoRights:
		return connect.BadConfig("publication.autocreate.mode", fmt.Errorf("user %q can't make the publication (%s); it must own the tables and may need: GRANT CREATE ON DATABASE %s TO %s; or as another user run: %s", s.user, pg.Message, quoteIdent(s.database), quoteIdent(s.user), sql))
	}
	return fmt.Errorf("make publication %q: %w", s.publication, err)
}

// heed takes over how an existing publication gives partitions, and warns of operations that it leaves out.
func (s *settings) heed(row []string, log *slog.Logger) {
	if root := row[4] == "true"; root != s.viaRoot {
		log.Warn("the publication's publish_via_partition_root is heeded, not publish.via.partition.root", "publication", s.publication, "publish_via_partition_root", root)
		s.viaRoot = root
	}
	for i, op := range []byte("cud") {
		if row[1+i] != "t" && !s.Skip[op] {
			log.Warn("the publication leaves out an operation: its changes will be missing", "publication", s.publication,
				"operation", string(op), "mend", "ALTER PUBLICATION "+quoteIdent(s.publication)+" SET (publish = 'insert, update, delete, truncate')")
		}
	}
}

// publicationSQL is the statement that makes the publication in the configured mode; "" if there is nothing to publish.
func (s *settings) publicationSQL(wanted []tableEntry) string {
	switch s.autocreate {
	case "no_tables":
		return "CREATE PUBLICATION " + quoteIdent(s.publication) + s.publicationOptions()
	case "filtered":
		if len(wanted) == 0 {
			return ""
		}
		return s.filteredSQL(wanted)
	}
	return "CREATE PUBLICATION " + quoteIdent(s.publication) + " FOR ALL TABLES" + s.publicationOptions()
}

func (s *settings) filteredSQL(wanted []tableEntry) string {
	if len(wanted) == 0 {
		return "CREATE PUBLICATION " + quoteIdent(s.publication) + " FOR ALL TABLES" + s.publicationOptions()
	}
	return "CREATE PUBLICATION " + quoteIdent(s.publication) + " FOR TABLE " + tableList(wanted) + s.publicationOptions()
}

func (s *settings) publicationOptions() string {
	if s.viaRoot {
		return " WITH (publish_via_partition_root = true)"
	}
	return ""
}

func tableList(tables []tableEntry) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = "ONLY " + t.name.quoted()
		if t.parent {
			names[i] = t.name.quoted()
		}
	}
	return strings.Join(names, ", ")
}

// stepPublication makes a filtered publication carry the captured tables and no others.
func (s *settings) stepPublication(ctx context.Context, conn *pgconn.PgConn, wanted []tableEntry, log *slog.Logger) error {
	have, err := published(ctx, conn, s.publication)
	if err != nil {
		return err
	}
	same := len(have) == len(wanted)
	for _, t := range wanted {
		if _, ok := have[t.name]; !ok {
			same = false
		}
	}
	if same || len(wanted) == 0 {
		return nil
	}
	sql := "ALTER PUBLICATION " + quoteIdent(s.publication) + " SET TABLE " + tableList(wanted)
	if err := execute(ctx, conn, sql); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == stateNoRights {
			return connect.BadConfig("publication.autocreate.mode", fmt.Errorf("user %q can't bring the publication in step with the captured tables (%s); as its owner run: %s", s.user, pg.Message, sql))
		}
		return fmt.Errorf("alter publication %q: %w", s.publication, err)
	}
	log.Warn("publication brought in step with the captured tables: tables that are new in it are captured from now on, without the rows they hold already",
		"publication", s.publication, "tables", len(wanted))
	return nil
}

// unpublished lists the captured tables whose changes the publication does not carry: ones that were left out, or that
// were dropped and made again, by which a publication of single tables loses them.
func (s *settings) unpublished(ctx context.Context, conn *pgconn.PgConn, wanted []tableEntry) ([]tableEntry, error) {
	have, err := published(ctx, conn, s.publication)
	if err != nil {
		return nil, err
	}
	var out []tableEntry
	for _, t := range wanted {
		if _, ok := have[t.name]; !ok {
			out = append(out, t)
		}
	}
	return out, nil
}

// auditPublication warns, once each, of captured tables that the publication does not carry.
func (t *task) auditPublication(ctx context.Context, conn *pgconn.PgConn) error {
	all, err := tables(ctx, conn)
	if err != nil {
		return err
	}
	missing, err := t.settings.unpublished(ctx, conn, t.settings.captured(all))
	if err != nil {
		return err
	}
	t.stats.unpublished.Store(int64(len(missing)))
	for _, m := range missing {
		if !t.warned[m.oid] {
			t.warned[m.oid] = true
			t.log.Warn("the publication does not carry this table: its changes are missing", "publication", t.settings.publication,
				"table", m.name.String(), "mend", "ALTER PUBLICATION "+quoteIdent(t.settings.publication)+" ADD TABLE "+m.name.quoted())
		}
	}
	return nil
}
