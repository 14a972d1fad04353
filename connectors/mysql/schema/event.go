package schema

import (
	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// ChangeSchemas are the schemas of the records of the schema change topic.
type ChangeSchemas struct{ Key, Value *connect.Schema }

// NewChangeSchemas makes them for the connector ("mysql", "mariadb") whose source block
// is given; adjust is schema.name.adjustment.mode.
func NewChangeSchemas(connector string, source *connect.Schema, adjust func(string) string) ChangeSchemas {
	named := func(name string, fields ...connect.StructField) *connect.Schema {
		s := debezium.NamedSchema(connect.Struct, adjust("io.debezium.connector."+name))
		s.Fields = fields
		return s
	}
	text, number := debezium.PlainSchema(connect.String), debezium.PlainSchema(connect.Int32)
	field := func(name string, s *connect.Schema) connect.StructField {
		return connect.StructField{Name: name, Schema: s}
	}
	optional := func(name string, s *connect.Schema) connect.StructField { return field(name, s.AsOptional()) }
	truth := debezium.PlainSchema(connect.Bool)
	list := func(elem *connect.Schema) *connect.Schema { return &connect.Schema{Type: connect.Array, Elem: elem} }
	column := named("schema.Column", field("name", text), field("jdbcType", number), optional("nativeType", number),
		field("typeName", text), optional("typeExpression", text), optional("charsetName", text), optional("length", number),
		optional("scale", number), field("position", number), optional("optional", truth), optional("autoIncremented", truth),
		optional("generated", truth), optional("comment", text), optional("defaultValueExpression", text),
		optional("enumValues", list(text)))
	table := named("schema.Table", optional("defaultCharsetName", text), optional("primaryKeyColumnNames", list(text)),
		field("columns", list(column)), optional("comment", text))
	change := named("schema.Change", field("type", text), field("id", text), optional("table", table))
	return ChangeSchemas{
		Key: named(connector+".SchemaChangeKey", field("databaseName", text)),
		Value: named(connector+".SchemaChangeValue", field("source", source), field("ts_ms", debezium.PlainSchema(connect.Int64)),
			optional("databaseName", text), optional("schemaName", text), optional("ddl", text), field("tableChanges", list(change))),
	}
}

// ChangeKey is the key of a record of the schema change topic.
func ChangeKey(database string) connect.Value {
	return connect.StructValue([]connect.Value{connect.StringValue(database)})
}

// ChangeValue is the value of a record of the schema change topic; source is its source
// block, millis when it is made.
func (f Format) ChangeValue(source connect.Value, c *Change, millis int64) connect.Value {
	changes := c.TableChanges()
	list := make([]connect.Value, 0, len(changes))
	for i := range changes {
		table := connect.Value{}
		if changes[i].Table != nil {
			table = f.tableValue(changes[i].Table)
		}
		list = append(list, connect.StructValue([]connect.Value{
			connect.StringValue(changeNames[changes[i].Type]), connect.StringValue(quotedID(changes[i].ID)), table,
		}))
	}
	return connect.StructValue([]connect.Value{
		source, connect.Int64Value(millis), connect.StringValue(c.Database), {}, connect.StringValue(c.DDL), connect.ArrayValue(list),
	})
}

func (f Format) tableValue(t *Table) connect.Value {
	columns := make([]connect.Value, len(t.Columns))
	for i := range t.Columns {
		columns[i] = f.columnValue(&t.Columns[i])
	}
	return connect.StructValue([]connect.Value{
		optionalText(t.Charset), textList(t.PrimaryKey), connect.ArrayValue(columns), optionalText(f.Comment(t.Comment)),
	})
}

func (f Format) columnValue(c *Column) connect.Value {
	var length, scale, text, labels connect.Value
	if c.HasLength {
		length = connect.Int32Value(int32(c.Length))
	}
	if c.HasScale {
		scale = connect.Int32Value(int32(c.Scale))
	}
	if c.Default != nil {
		text = connect.StringValue(escapeText(*c.Default))
	}
	if len(c.EnumValues) > 0 {
		labels = textList(quoteLabels(c.EnumValues))
	}
	automatic := connect.BoolValue(f.automatic(c))
	return connect.StructValue([]connect.Value{
		connect.StringValue(c.Name), connect.Int32Value(int32(c.JDBCType)), {}, connect.StringValue(c.TypeName),
		connect.StringValue(c.TypeExpression), optionalText(c.Charset), length, scale, connect.Int32Value(int32(c.Position)),
		connect.BoolValue(c.Optional), automatic, automatic, optionalText(f.Comment(c.Comment)), text, labels,
	})
}

func optionalText(text string) connect.Value {
	if text == "" {
		return connect.Value{}
	}
	return connect.StringValue(text)
}

func textList(list []string) connect.Value {
	values := make([]connect.Value, len(list))
	for i, s := range list {
		values[i] = connect.StringValue(s)
	}
	return connect.ArrayValue(values)
}
