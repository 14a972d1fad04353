package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// tableEntry is a table of the database, as lists of tables need it.
type tableEntry struct {
	oid       uint32
	name      tableName
	identity  byte // 'd', 'n', 'f', 'i'
	readable  bool // SELECT is granted
	usable    bool // USAGE of the schema is granted
	primary   bool // has a primary key
	partition bool
	parent    bool // a partitioned table
}

// tableShape is what the catalog says of one table's columns and keys, now.
type tableShape struct {
	name     tableName
	identity byte
	columns  []shapeColumn
	keys     [][]string // candidates, best first: primary key, identity index, unique indexes of required columns
}

type shapeColumn struct {
	name      string
	oid       uint32
	typmod    int32
	required  bool
	generated bool
	fallback  string // the default's expression, "" for none
}

// tables lists the tables whose changes a publication can carry, in order of their names.
func tables(ctx context.Context, conn *pgconn.PgConn) ([]tableEntry, error) {
	rows, err := rowsOf(ctx, conn, `
SELECT c.oid, n.nspname, c.relname, c.relreplident, has_table_privilege(c.oid, 'SELECT'), has_schema_privilege(n.oid, 'USAGE'),
  EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), c.relispartition, c.relkind = 'p'
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
ORDER BY n.nspname, c.relname`)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	out := make([]tableEntry, 0, len(rows))
	for _, r := range rows {
		oid, err := strconv.ParseUint(r[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		out = append(out, tableEntry{
			oid: uint32(oid), name: tableName{r[1], r[2]}, identity: r[3][0],
			readable: r[4] == "t", usable: r[5] == "t", primary: r[6] == "t", partition: r[7] == "t", parent: r[8] == "t",
		})
	}
	return out, nil
}

// captured leaves those tables whose changes come under their own name.
func (s *settings) captured(all []tableEntry) []tableEntry {
	var out []tableEntry
	for _, t := range all {
		own := !t.parent
		if s.viaRoot {
			own = !t.partition
		}
		if own && s.takesTable(t.name) {
			out = append(out, t)
		}
	}
	return out
}

// shapeOf asks for a table's shape; nil if it is gone.
func shapeOf(ctx context.Context, conn *pgconn.PgConn, oid uint32) (*tableShape, error) {
	id := strconv.FormatUint(uint64(oid), 10)
	head, err := oneOf(ctx, conn, `SELECT n.nspname, c.relname, c.relreplident FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`, id)
	if err != nil || head == nil {
		return nil, err
	}
	shape := &tableShape{name: tableName{head[0], head[1]}, identity: head[2][0]}
	rows, err := rowsOf(ctx, conn, `
SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, coalesce(to_jsonb(a)->>'attgenerated', '') <> '',
  pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, id)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", shape.name, err)
	}
	for _, r := range rows {
		oid, err1 := strconv.ParseUint(r[1], 10, 32)
		typmod, err2 := strconv.ParseInt(r[2], 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("read columns of %s: bad number in %q", shape.name, r)
		}
		c := shapeColumn{name: r[0], oid: uint32(oid), typmod: int32(typmod), required: r[3] == "t", generated: r[4] == "t"}
		if !c.generated {
			c.fallback = r[5]
		}
		shape.columns = append(shape.columns, c)
	}
	return shape, shape.readKeys(ctx, conn, id)
}

func (t *tableShape) readKeys(ctx context.Context, conn *pgconn.PgConn, id string) error {
	rows, err := rowsOf(ctx, conn, `
SELECT i.indexrelid, a.attname
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND k.place <= coalesce((to_jsonb(i)->>'indnkeyatts')::int, i.indnatts)
ORDER BY i.indisprimary DESC, i.indisreplident DESC, i.indexrelid, k.place`, id)
	if err != nil {
		return fmt.Errorf("read keys of %s: %w", t.name, err)
	}
	required := make(map[string]bool, len(t.columns))
	for _, c := range t.columns {
		required[c.name] = c.required
	}
	for i := 0; i < len(rows); {
		var key []string
		whole := true
		k := i
		for ; k < len(rows) && rows[k][0] == rows[i][0]; k++ {
			key = append(key, rows[k][1])
			whole = whole && required[rows[k][1]]
		}
		if i = k; whole {
			t.keys = append(t.keys, key)
		}
	}
	return nil
}

// learn reads those of the types that are not built in, with what they are made of. Types that it knew are read again:
// an enum may have a new label.
func (m *typeMapper) learn(ctx context.Context, conn *pgconn.PgConn, oids []uint32) error {
	asked := make(map[uint32]bool)
	for len(oids) > 0 {
		var ids []string
		for _, oid := range oids {
			if oid >= firstUserOID && !asked[oid] {
				asked[oid] = true
				ids = append(ids, strconv.FormatUint(uint64(oid), 10))
			}
		}
		if oids = nil; len(ids) == 0 {
			break
		}
		rows, err := rowsOf(ctx, conn, `SELECT t.oid, t.typname, t.typtype, t.typelem, t.typcategory = 'A', t.typbasetype, t.typtypmod
FROM pg_catalog.pg_type t WHERE t.oid = ANY ($1::oid[])`, "{"+strings.Join(ids, ",")+"}")
		if err != nil {
			return fmt.Errorf("read types: %w", err)
		}
		for _, r := range rows {
			info, err := m.learnOne(ctx, conn, r)
			if err != nil {
				return err
			}
			oids = append(oids, info.elem, info.base)
		}
	}
	return nil
}

func (m *typeMapper) learnOne(ctx context.Context, conn *pgconn.PgConn, r []string) (*typeInfo, error) {
	number := func(s string) uint32 {
		n, _ := strconv.ParseUint(s, 10, 32) // an oid of the server's
		return uint32(n)
	}
	info := &typeInfo{oid: number(r[0]), name: r[1], kind: r[2], elem: number(r[3]), array: r[4] == "t", base: number(r[5])}
	typmod, err := strconv.ParseInt(r[6], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read types: %w", err)
	}
	info.baseTypmod = int32(typmod)
	if info.kind == "e" {
		labels, err := rowsOf(ctx, conn, `SELECT enumlabel FROM pg_catalog.pg_enum WHERE enumtypid = $1::oid ORDER BY enumsortorder`, r[0])
		if err != nil {
			return nil, fmt.Errorf("read enum %s: %w", info.name, err)
		}
		for _, l := range labels {
			info.labels = append(info.labels, l[0])
		}
	}
	m.types[info.oid] = info
	return info, nil
}
