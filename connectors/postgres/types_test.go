package postgres

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// typeRow is one value of one type: how it is written in SQL and what it must come out as.
type typeRow struct {
	sql    string // the column's type
	value  string // an SQL expression
	schema string // kind/name of the field's schema
	want   string // show of the value
}

// show gives a value so that kinds and contents can be told apart.
func show(s *connect.Schema, v connect.Value) string {
	switch v.Kind() {
	case connect.Null:
		return "null"
	case connect.Bytes:
		if s.Name == connect.DecimalName {
			scale, _ := strconv.Atoi(s.Param("scale"))
			text, err := v.Decimal(scale)
			return fmt.Sprint("dec ", text, errText(err))
		}
		return "hex " + hex.EncodeToString(v.Bytes())
	case connect.String:
		return v.Str()
	case connect.Array:
		var parts []string
		for _, item := range v.Items() {
			parts = append(parts, show(s.Elem, item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case connect.Map:
		var parts []string
		for _, item := range v.Items() {
			parts = append(parts, item.String())
		}
		return "map " + strings.Join(parts, " ")
	case connect.Struct:
		var parts []string
		for i, item := range v.Items() {
			parts = append(parts, show(s.Fields[i].Schema, item))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return v.String()
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return " " + err.Error()
}

func schemaText(s *connect.Schema) string {
	if s.Name == "" {
		return s.Type.String()
	}
	return s.Type.String() + "/" + s.Name
}

// checkTypes puts every row's value into a table before the snapshot and after it, and compares both with what is wanted.
func checkTypes(t *testing.T, setup string, rows []typeRow, more ...string) {
	t.Helper()
	d := newDB(t)
	if setup != "" {
		d.exec(setup)
	}
	var columns, values []string
	for i, row := range rows {
		columns = append(columns, fmt.Sprintf("c%d %s", i, row.sql))
		values = append(values, row.value)
	}
	d.exec("CREATE TABLE t (id int PRIMARY KEY, " + strings.Join(columns, ", ") + ")")
	insert := func(id int) {
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, %s)", id, strings.Join(values, ", ")))
	}
	insert(1)
	r := newRunner(t, d.config(more...)).open()
	defer r.Close()
	r.Records(1)
	insert(2)
	log := r.Records(2)
	if log[0].Schema != log[1].Schema {
		t.Error("the snapshot's schema is not the stream's")
	}
	for _, e := range log {
		if e.Fault != nil {
			t.Fatalf("fault: %s", e.Fault.Reason)
		}
	}
	rowSchema := log[0].Schema.Fields[debezium.EnvelopeAfter].Schema
	for i, row := range rows {
		name := "c" + strconv.Itoa(i)
		f := rowSchema.Field(name)
		if f < 0 {
			if row.schema != "" {
				t.Errorf("%s: the column is missing", row.sql)
			}
			continue
		}
		s := rowSchema.Fields[f].Schema
		if got := schemaText(s); got != row.schema {
			t.Errorf("%s: schema %s, want %s", row.sql, got, row.schema)
		}
		for k, where := range []string{"snapshot", "stream"} {
			if got := show(s, log[k].After(name)); got != row.want {
				t.Errorf("%s %s: %s gives %s, want %s", where, row.sql, row.value, got, row.want)
			}
		}
	}
}

const dbz = "io.debezium."

func TestTypes(t *testing.T) {
	checkTypes(t, `CREATE TYPE mood AS ENUM ('sad', 'o''k', 'happy'); CREATE DOMAIN price AS numeric(10,2); CREATE DOMAIN price2 AS price;
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE TYPE pair AS (a int, b int)`, []typeRow{
		{"boolean", "true", "boolean", "true"},
		{"boolean", "NULL", "boolean", "null"},
		{"smallint", "-32768", "int16", "-32768"},
		{"integer", "2147483647", "int32", "2147483647"},
		{"bigint", "-9223372036854775808", "int64", "-9223372036854775808"},
		{"oid", "4294967295", "int64", "4294967295"},
		{"real", "1.5", "float", "1.5"},
		{"real", "'-Infinity'", "float", "-Inf"},
		{"double precision", "1e20", "double", "1e+20"},
		{"double precision", "2", "double", "2"},
		{"double precision", "'NaN'", "double", "NaN"},
		{"double precision", "'Infinity'", "double", "+Inf"},
		{"double precision", "0.1", "double", "0.1"},
		{"numeric(10,2)", "-12.3", "bytes/" + connect.DecimalName, "dec -12.30"},
		{"numeric(38,0)", "12345678901234567890123456789012345678", "bytes/" + connect.DecimalName, "dec 12345678901234567890123456789012345678"},
		{"numeric(5,2)", "'NaN'", "bytes/" + connect.DecimalName, "null"},
		{"numeric(3,-2)", "12345", "bytes/" + connect.DecimalName, "dec 12300"},
		{"numeric", "123.4500", "struct/" + dbz + "data.VariableScaleDecimal", "{2 hex 3039}"},
		{"numeric", "-1", "struct/" + dbz + "data.VariableScaleDecimal", "{0 hex ff}"},
		{"numeric", "128", "struct/" + dbz + "data.VariableScaleDecimal", "{0 hex 0080}"},
		{"numeric", "1200", "struct/" + dbz + "data.VariableScaleDecimal", "{0 hex 04b0}"},
		{"numeric", "0.000", "struct/" + dbz + "data.VariableScaleDecimal", "{0 hex 00}"},
		{"numeric", "-170141183460469231731687303715884105728", "struct/" + dbz + "data.VariableScaleDecimal", "{0 hex 80000000000000000000000000000000}"},
		{"numeric", "'Infinity'", "struct/" + dbz + "data.VariableScaleDecimal", "null"},
		{"money", "(-1234567.89)::numeric::money", "bytes/" + connect.DecimalName, "dec -1234567.89"},
		{"text", `E'tab\there\nline \\ back'`, "string", "tab\there\nline \\ back"},
		{"text", `'\N'`, "string", `\N`},
		{"text", `''`, "string", ""},
		{"varchar(10)", "'ü€😀'", "string", "ü€😀"},
		{"char(5)", "'ab'", "string", "ab   "},
		{"name", "'nm'", "string", "nm"},
		{"citext", "'CiText'", "string", "CiText"},
		{"ltree", "'a.b.c'", "string/" + dbz + "data.Ltree", "a.b.c"},
		{"bytea", `'\x00ff5c'`, "bytes", "hex 00ff5c"},
		{"bytea", `''`, "bytes", "hex "},
		{"json", `'{"a":  1}'`, "string/" + dbz + "data.Json", `{"a":  1}`},
		{"jsonb", `'{"b":[1,"x"]}'`, "string/" + dbz + "data.Json", `{"b": [1, "x"]}`},
		{"xml", `'<a>1</a>'`, "string/" + dbz + "data.Xml", "<a>1</a>"},
		{"uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "string/" + dbz + "data.Uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"inet", "'192.168.0.1'", "string", "192.168.0.1"},
		{"cidr", "'192.168.0.0/24'", "string", "192.168.0.0/24"},
		{"macaddr", "'08:00:2b:01:02:03'", "string", "08:00:2b:01:02:03"},
		{"int4range", "'[1,5)'", "string", "[1,5)"},
		{"tsvector", "'a:1 b:2'", "string/" + dbz + "data.Tsvector", "'a':1 'b':2"},
		{"mood", "'o''k'", "string/" + dbz + "data.Enum", "o'k"},
		{"price", "1.5", "bytes/" + connect.DecimalName, "dec 1.50"},
		{"price2", "1.5", "bytes/" + connect.DecimalName, "dec 1.50"},
		{"bit(1)", "B'1'", "boolean", "true"},
		{"bit(10)", "B'1000000011'", "bytes/" + dbz + "data.Bits", "hex 0302"},
		{"varbit", "B'101'", "bytes/" + dbz + "data.Bits", "hex 05"},
		{"point", "'(1.5,-2)'", "struct/" + dbz + "data.geometry.Point", "{1.5 -2 hex 0101000000000000000000f83f00000000000000c0 null}"},
		{"hstore", `'a=>1, "b c"=>NULL, "q\"t"=>"x\\y"'`, "string/" + dbz + "data.Json", `{"a":"1","b c":null,"q\"t":"x\\y"}`},
		{"pair", "ROW(1,2)", "", ""},
		{"pg_lsn", "'0/1'", "", ""},
	})
}

func TestTemporalTypes(t *testing.T) {
	checkTypes(t, "", []typeRow{
		{"date", "'2024-02-29'", "int32/" + dbz + "time.Date", "19782"},
		{"date", "'0044-03-15 BC'", "int32/" + dbz + "time.Date", "-735160"},
		{"date", "'12345-01-01'", "int32/" + dbz + "time.Date", "3789391"},
		{"date", "'1500-01-01'", "int32/" + dbz + "time.Date", "-171664"},
		{"date", "'infinity'", "int32/" + dbz + "time.Date", "2147483647"},
		{"time", "'24:00:00'", "int64/" + dbz + "time.MicroTime", "86400000000"},
		{"time(3)", "'01:02:03.456'", "int32/" + dbz + "time.Time", "3723456"},
		{"timetz", "'10:00:00.5+02'", "string/" + dbz + "time.ZonedTime", "08:00:00.5Z"},
		{"timetz", "'01:00:00+05:30:15'", "string/" + dbz + "time.ZonedTime", "19:29:45Z"},
		{"timestamp", "'2020-01-02 03:04:05.000006'", "int64/" + dbz + "time.MicroTimestamp", "1577934245000006"},
		{"timestamp(3)", "'2020-01-02 03:04:05.007'", "int64/" + dbz + "time.Timestamp", "1577934245007"},
		{"timestamp(0)", "'1969-12-31 23:59:59'", "int64/" + dbz + "time.Timestamp", "-1000"},
		{"timestamp", "'infinity'", "int64/" + dbz + "time.MicroTimestamp", "9223372036825200000"},
		{"timestamp", "'-infinity'", "int64/" + dbz + "time.MicroTimestamp", "-9223372036832400000"},
		{"timestamp", "'0001-01-01 00:00:00 BC'", "int64/" + dbz + "time.MicroTimestamp", "-62167219200000000"},
		{"timestamptz", "'2020-01-02 03:04:05.1+02'", "string/" + dbz + "time.ZonedTimestamp", "2020-01-02T01:04:05.100000Z"},
		{"timestamptz(3)", "'2020-01-02 03:04:05.1+00'", "string/" + dbz + "time.ZonedTimestamp", "2020-01-02T03:04:05.100Z"},
		{"timestamptz", "'2020-01-02 03:04:05+00'", "string/" + dbz + "time.ZonedTimestamp", "2020-01-02T03:04:05.000000Z"},
		{"timestamptz(0)", "'2020-01-02 03:04:05+00'", "string/" + dbz + "time.ZonedTimestamp", "2020-01-02T03:04:05Z"},
		{"timestamptz", "'infinity'", "string/" + dbz + "time.ZonedTimestamp", "infinity"},
		{"timestamptz", "'12345-01-01 00:00:00+00'", "string/" + dbz + "time.ZonedTimestamp", "+12345-01-01T00:00:00.000000Z"},
		{"timestamptz", "'0044-03-15 12:00:00+00 BC'", "string/" + dbz + "time.ZonedTimestamp", "-0043-03-15T12:00:00.000000Z"},
		{"interval", "'1 day 00:00:01.5'", "int64/" + dbz + "time.MicroDuration", "86401500000"},
		{"interval", "'-1 day -00:00:00.25'", "int64/" + dbz + "time.MicroDuration", "-86400250000"},
		{"interval", "'1 month'", "int64/" + dbz + "time.MicroDuration", "2629800000000"},
	})
}

func TestTypeModes(t *testing.T) {
	checkTypes(t, "CREATE EXTENSION hstore", []typeRow{
		{"numeric(10,2)", "1.5", "string", "1.50"},
		{"numeric", "'NaN'", "string", "NAN"},
		{"money", "2::money", "string", "2.00"},
		{"bytea", `'\x00ff'`, "string", "AP8="},
		{"hstore", "'a=>1,b=>NULL'", "map", `map "a" "1" "b" null`},
		{"interval", "'1 year 2 months 3 days 04:05:06.78'", "string/" + dbz + "time.Interval", "P1Y2M3DT4H5M6.78S"},
		{"interval", "'-1 second'", "string/" + dbz + "time.Interval", "P0Y0M0DT0H0M-1S"},
		{"date", "'2024-02-29'", "int32/" + connect.DateName, "19782"},
		{"time", "'01:02:03.456789'", "int32/" + connect.TimeName, "3723456"},
		{"timestamp", "'2020-01-02 03:04:05.006789'", "int64/" + connect.TimestampName, "1577934245006"},
	}, "decimal.handling.mode", "string", "binary.handling.mode", "base64", "hstore.handling.mode", "map", "interval.handling.mode", "string", "time.precision.mode", "connect")
	checkTypes(t, "", []typeRow{
		{"numeric(10,2)", "1.5", "double", "1.5"},
		{"numeric", "'-Infinity'", "double", "-Inf"},
		{"bytea", `'\x00ff'`, "string", "00ff"},
		{"date", "'2024-02-29'", "string/" + dbz + "time.IsoDate", "2024-02-29Z"},
		{"time", "'01:02:03.45'", "string/" + dbz + "time.IsoTime", "01:02:03.45Z"},
		{"timestamp", "'2020-01-02 03:04:05'", "string/" + dbz + "time.IsoTimestamp", "2020-01-02T03:04:05Z"},
	}, "decimal.handling.mode", "double", "binary.handling.mode", "hex", "time.precision.mode", "isostring")
	checkTypes(t, "", []typeRow{
		{"time", "'00:00:01'", "int64/" + dbz + "time.NanoTime", "1000000000"},
		{"timestamp(0)", "'1970-01-01 00:00:01'", "int64/" + dbz + "time.NanoTimestamp", "1000000000"},
		{"timestamp", "'infinity'", "int64/" + dbz + "time.NanoTimestamp", "9223372036854775807"},
	}, "time.precision.mode", "nanoseconds")
}

func TestArrays(t *testing.T) {
	checkTypes(t, `CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN posint AS int`, []typeRow{
		{"int[]", "'{1,NULL,-3}'", "array", "[1 null -3]"},
		{"int[]", "'{}'", "array", "[]"},
		{"int[]", "'[0:1]={7,8}'", "array", "[7 8]"},
		{"int[]", "'{{1,2},{3,4}}'", "array", "[1 2 3 4]"},
		{"text[]", `ARRAY['a,b', 'c"d', '', 'NULL', NULL, E'back\\slash', '{x}', E'tab\t']`, "array", "[a,b c\"d  NULL null back\\slash {x} tab\t]"},
		{"varchar(5)[]", "'{ab,cd}'", "array", "[ab cd]"},
		{"numeric(6,2)[]", "'{1.5,NULL}'", "array", "[dec 1.50 null]"},
		{"boolean[]", "'{t,f}'", "array", "[true false]"},
		{"float8[]", "'{1,2.5,NaN}'", "array", "[1 2.5 NaN]"},
		{"timestamptz[]", "'{2020-01-01 00:00:00+00}'", "array", "[2020-01-01T00:00:00.000000Z]"},
		{"date[]", "'{1970-01-02}'", "array", "[1]"},
		{"uuid[]", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", "array", "[a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11]"},
		{"jsonb[]", `ARRAY['{"a": 1}'::jsonb]`, "array", `[{"a": 1}]`},
		{"bytea[]", `ARRAY['\x01ff'::bytea]`, "array", "[hex 01ff]"},
		{"mood[]", "'{sad,NULL}'", "array", "[sad null]"},
		{"inet[]", "'{10.0.0.1}'", "array", "[10.0.0.1]"},
		{"posint[]", "'{1}'", "", ""},
		{"money[]", "'{1}'", "", ""},
	})
}
