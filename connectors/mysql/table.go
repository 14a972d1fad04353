package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
	"github.com/weirlog/weir/connectors/mysql/schema"
	"github.com/weirlog/weir/connectors/mysql/value"
)

// table is one version of a captured table: how its rows become values, keys and envelopes. It is immutable.
type table struct {
	debezium.Table
	id      schema.TableID
	model   *schema.Table
	columns []column // in the order of row images
	width   int      // fields of a row
	key     []int    // indexes into columns, in key order; empty: no key
	plan    *value.Plan
}

// column is how one column of a row is decoded.
type column struct {
	field    int           // in the row; -1: left out
	codec    *value.Codec  // nil of a column that a snapshot need not read
	zero     connect.Value // for a required column that the server did not send: its default, or its type's zero
	long     bool          // binlog_row_image=NOBLOB leaves it out where it did not change
	unsent   connect.Value // for a value that an update's image leaves out because it did not change
	fallback connect.Value // for a value that an insert's image leaves out because it is the default
}

// Fields of the source block behind the common ones, in order.
const (
	sourceTable = iota + debezium.SourceOwn
	sourceServerID
	sourceGTID
	sourceFile
	sourcePos
	sourceRow
	sourceThread
	sourceQuery
	sourceFields
)

func newSchemas(d binlog.Dialect) *debezium.Schemas {
	text, long := debezium.PlainSchema(connect.String), debezium.PlainSchema(connect.Int64)
	return debezium.NewSchemas("io.debezium.connector."+d.String()+".Source", []connect.StructField{
		{Name: "table", Schema: text.AsOptional()}, {Name: "server_id", Schema: long}, {Name: "gtid", Schema: text.AsOptional()},
		{Name: "file", Schema: text}, {Name: "pos", Schema: long}, {Name: "row", Schema: debezium.PlainSchema(connect.Int32)},
		{Name: "thread", Schema: long.AsOptional()}, {Name: "query", Schema: text.AsOptional()},
	}...)
}

// sourceAt is where a change comes from.
type sourceAt struct {
	at       *binlog.At
	txn      *openTxn // nil: none
	row      int      // in its event
	query    string
	micros   int64  // of a snapshot: when it was taken
	snapshot string // "" for the stream
}

// sourceBlock makes the source block of a change of a table.
func (t *task) sourceBlock(tab *table, from *sourceAt) connect.Value {
	return t.sourceOf(tab.id.Database, &tab.id.Name, from)
}

// sourceOf makes the source block of a change in a database; a nil name is null.
func (t *task) sourceOf(database string, name *string, from *sourceAt) connect.Value {
	v := t.batch.Arena.Take(sourceFields)
	copy(v, t.template)
	v[debezium.SourceDB] = connect.StringValue(database)
	if name != nil {
		v[sourceTable] = connect.StringValue(*name)
	}
	micros := from.micros
	if micros == 0 {
		micros = int64(from.at.Seconds) * 1e6
	}
	if from.txn != nil {
		if from.txn.micros != 0 {
			micros = from.txn.micros
		}
		if from.txn.gtid != "" {
			v[sourceGTID] = connect.StringValue(from.txn.gtid)
		}
		if from.txn.thread > 0 {
			v[sourceThread] = connect.Int64Value(from.txn.thread)
		}
	}
	debezium.SetSourceTime(v, micros)
	v[debezium.SourceSnapshot] = connect.StringValue("false")
	if from.snapshot != "" {
		v[debezium.SourceSnapshot] = connect.StringValue(from.snapshot)
	}
	v[sourceServerID] = connect.Int64Value(int64(from.at.ServerID))
	v[sourceFile], v[sourcePos] = connect.StringValue(from.at.File), connect.Int64Value(int64(from.at.Start))
	v[sourceRow] = connect.Int32Value(int32(from.row))
	if from.query != "" {
		v[sourceQuery] = connect.StringValue(from.query)
	}
	return connect.StructValue(v)
}

// newTable makes a captured table of its structure and of its columns' form in row images (nil: text of a snapshot). It
// hands out the schemas of the table's last version where they are the same.
func (t *task) newTable(model *schema.Table, wires []value.Wire) (*table, error) {
	s := t.settings
	tab := &table{id: model.ID, model: model, columns: make([]column, len(model.Columns))}
	var row, key []connect.StructField
	if err := tab.chooseKey(s); err != nil {
		return nil, err
	}
	codecs := make([]*value.Codec, len(tab.columns))
	for i := range model.Columns {
		var wire value.Wire
		if wires != nil {
			wire = wires[i]
		}
		if err := tab.columns[i].compile(s, tab, i, wire); err != nil {
			return nil, fmt.Errorf("table %s: %w", model.ID, err)
		}
		c := &tab.columns[i]
		codecs[i] = c.codec
		if c.field >= 0 {
			row = append(row, connect.StructField{Name: debezium.AdjustFieldName(s.AdjustField, model.Columns[i].Name), Schema: t.fieldSchema(tab, i)})
		}
	}
	tab.plan = value.NewPlan(codecs, wires)
	for _, i := range tab.key {
		key = append(key, connect.StructField{Name: debezium.AdjustFieldName(s.AdjustField, model.Columns[i].Name), Schema: t.fieldSchema(tab, i)})
	}
	var prior *debezium.Table
	if p := t.tables[model.ID]; p != nil {
		prior = &p.Table
	}
	tab.Table = *s.NewTable(t.shared, model.ID.String(), s.Topic(model.ID.Database, model.ID.Name), row, key, prior)
	if len(key) == 0 && (prior == nil || prior.Key != nil) {
		t.log.Warn("table without a key: its records have none", "table", model.ID.String())
	}
	t.tables[model.ID] = tab
	return tab, nil
}

// fieldSchema gives the schema of a table's column i: its decoder's, with the comment where comments are asked for.
func (t *task) fieldSchema(tab *table, i int) *connect.Schema {
	s, doc := tab.columns[i].codec.Schema, t.format.Comment(tab.model.Columns[i].Comment)
	if doc == "" {
		return s
	}
	with := *s
	with.Doc = doc
	return &with
}

// compile makes the decoder of a table's column i. One that is neither captured nor part of the key is passed over.
func (c *column) compile(s *settings, tab *table, i int, wire value.Wire) (err error) {
	model := &tab.model.Columns[i]
	c.field = -1
	if !model.Hidden && s.takesColumn(tab.id, model.Name) {
		c.field = tab.width
		tab.width++
	} else if !slices.Contains(tab.key, i) {
		if wire != (value.Wire{}) {
			c.codec, err = value.NewSkip(wire)
		}
		return err
	}
	if c.codec, err = value.Compile(model, wire, s.modes()); err == nil {
		c.fill(model, s.Placeholder, s.Binary)
	}
	return err
}

// fill finds what stands for values that row images leave out.
func (c *column) fill(model *schema.Column, placeholder []byte, binary string) {
	s := c.codec.Schema
	if !s.Optional {
		c.zero = debezium.ZeroValue(s)
	}
	if s.Default != nil {
		c.fallback = *s.Default
		c.zero = c.fallback
	} else {
		c.fallback = c.zero
	}
	c.unsent = c.zero
	c.long = model.Kind >= schema.TinyText && model.Kind <= schema.LongText || model.Kind >= schema.TinyBlob && model.Kind <= schema.LongBlob ||
		model.Kind == schema.JSON || model.Kind.IsSpatial() || model.Kind == schema.Vector
	switch k := model.Kind; {
	case k >= schema.Binary && k <= schema.LongBlob:
		c.unsent = debezium.BinaryValue(binary, placeholder, &debezium.Arena{})
	case k == schema.JSON, k >= schema.Char && k <= schema.LongText:
		c.unsent = connect.StringValue(string(placeholder))
	}
}

// chooseKey picks the key columns: message.key.columns, else the primary key or the unique key that stands for it.
func (tab *table) chooseKey(s *settings) error {
	names, ruled := s.KeyRules.Columns(tab.id.String())
	if !ruled {
		names = tab.model.PrimaryKey
	}
	for _, name := range names {
		i := slices.IndexFunc(tab.model.Columns, func(c schema.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 {
			if ruled {
				return connect.BadConfig("message.key.columns", fmt.Errorf("table %s has no column %s", tab.id, name))
			}
			tab.key = nil
			return nil
		}
		tab.key = append(tab.key, i)
	}
	return nil
}

// tableFor gives the table that a table map announces, with the structure of its time; nil for one that is to be left out.
func (t *task) tableFor(m *binlog.TableMap) (*table, error) {
	if tab, ok := t.mapped[m]; ok {
		return tab, nil
	}
	id := schema.TableID{Database: m.Database, Name: m.Table}
	known := t.catalog.Table(id)
	model := schema.Overlay(known, id, mapColumns(m), m.PrimaryKey)
	if model == nil {
		return nil, t.unknownTable(id, known, m)
	}
	wires := make([]value.Wire, len(m.Columns))
	for i, c := range m.Columns {
		wires[i] = value.Wire{Type: c.Type, Meta: c.Meta}
	}
	tab, err := t.newTable(model, wires)
	if err != nil {
		return nil, err
	}
	t.mapped[m] = tab
	return tab, nil
}

// unknownTable does what inconsistent.schema.handling.mode says for a table whose structure is not known.
func (t *task) unknownTable(id schema.TableID, model *schema.Table, m *binlog.TableMap) error {
	known := "is not known"
	if model != nil {
		known = fmt.Sprintf("is known with other columns (%d) than its rows have (%d)", len(model.Columns), len(m.Columns))
	}
	err := fmt.Errorf("the structure of table %s %s: a statement that changed it was not understood, or the schema history is of another time; "+
		"SET GLOBAL binlog_row_metadata = FULL lets the server tell it with each change, snapshot.mode=recovery writes the history anew", id, known)
	if t.settings.badSchema == "fail" {
		return connect.BadConfig("inconsistent.schema.handling.mode", err)
	}
	if !t.warned[id] {
		t.warned[id] = true
		t.stats.unknown.Add(1)
		if t.settings.badSchema == "warn" {
			t.log.Warn("changes of a table are left out", "error", err)
		}
	}
	return nil
}

// tableNow gives a table with its present structure; nil for one that is not captured or not known.
func (t *task) tableNow(id schema.TableID) (*table, error) {
	if !t.settings.takesTable(id) {
		return nil, nil
	}
	if tab := t.tables[id]; tab != nil {
		return tab, nil
	}
	model := t.catalog.Table(id)
	if model == nil {
		return nil, nil
	}
	return t.newTable(model, nil)
}

func mapColumns(m *binlog.TableMap) []schema.MapColumn {
	out := make([]schema.MapColumn, len(m.Columns))
	for i, c := range m.Columns {
		out[i] = schema.MapColumn{Name: c.Name, Type: c.Type, Meta: c.Meta, Nullable: c.Nullable, Unsigned: c.Unsigned, HasUnsigned: c.HasUnsigned,
			Collation: c.Collation, Labels: c.Labels, Geometry: c.Geometry, Invisible: c.Invisible}
	}
	return out
}

// wanted tells the stream which tables' rows it is to give.
func (t *task) wanted(database, name string) bool {
	return t.settings.takesTable(schema.TableID{Database: database, Name: name})
}

// setCatalog takes a catalog of all tables; what was made of another is forgotten, but for the schemas.
func (t *task) setCatalog(c *schema.Catalog) {
	t.catalog = c
	clear(t.mapped)
}

// newCatalog makes an empty catalog for the server.
func (t *task) newCatalog() *schema.Catalog {
	return schema.NewCatalog(t.settings.schemaDialect(), t.server.foldNames, t.server.charset)
}
