package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/convert"
)

// TestJSON encodes whole events as the worker does by default and with schemas: every value must fit its schema, and the
// payload must be what a consumer of Debezium expects.
func TestJSON(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (id bigint PRIMARY KEY, b bool NOT NULL, i smallint NOT NULL DEFAULT 7, f real NOT NULL, g float8, n numeric(10,2) NOT NULL, v numeric NOT NULL,
s text NOT NULL, c char(3), y bytea NOT NULL, day date NOT NULL, tm time(3) NOT NULL, ts timestamp NOT NULL, tz timestamptz NOT NULL, iv interval NOT NULL, u uuid NOT NULL, j jsonb NOT NULL, m mood NOT NULL, arr text[] NOT NULL, ia int[], p point NOT NULL)`)
	r := streaming(t, d)
	d.exec(`INSERT INTO t VALUES (1, true, 2, 3, 1e300, 4.5, 6.70, E'ü"\n', 'x', '\x00ff', '1970-01-02', '00:00:01.5', '1970-01-01 00:00:01', '1970-01-01 00:00:01+00', '1 second',
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', 'ok', '{a,NULL}', NULL, '(1,2)'); UPDATE t SET i = 3; UPDATE t SET id = 2; DELETE FROM t; TRUNCATE t; INSERT INTO t (id, b, f, n, v, s, y, day, tm, ts, tz, iv, u, j, m, arr, p)
VALUES (3, false, 'NaN', 0, 0, '', '', 'infinity', '24:00', '-infinity', 'infinity', '0', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'null', 'sad', '{}', '(0,0)')`)
	log := r.Records(8)
	for _, schemas := range []string{"false", "true"} {
		values, err := convert.New("org.apache.kafka.connect.json.JsonConverter", map[string]string{"schemas.enable": schemas}, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range log {
			value, key := connect.DataOf(log[i].Schema, log[i].Value), connect.DataOf(log[i].KeySchema, log[i].Key)
			b, _, err := values.Encode(nil, log[i].Topic, &value)
			if err != nil {
				t.Fatalf("schemas.enable=%s record %d: %v", schemas, i, err)
			}
			if _, _, err := values.Encode(nil, log[i].Topic, &key); err != nil {
				t.Fatalf("schemas.enable=%s key of record %d: %v", schemas, i, err)
			}
			var parsed map[string]any
			if log[i].Value.IsNull() {
				continue
			}
			if err := json.Unmarshal(b, &parsed); err != nil {
				t.Fatalf("record %d is not JSON: %v: %s", i, err, b)
			}
			if i == 0 && schemas == "false" {
				checkPayload(t, string(b))
			}
		}
	}
}

func checkPayload(t *testing.T, got string) {
	t.Helper()
	want := `{"before":null,"after":{"id":1,"b":true,"i":2,"f":3.0,"g":1.0E300,"n":"AcI=","v":{"scale":1,"value":"Qw=="},"s":"ü\"\n","c":"x  ","y":"AP8=","day":1,"tm":1500,` +
		`"ts":1000000,"tz":"1970-01-01T00:00:01.000000Z","iv":1000000,"u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","j":"{\"a\": 1}","m":"ok","arr":["a",null],"ia":null,` +
		`"p":{"x":1.0,"y":2.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}},"source":{"version":"3.6.1.Final","connector":"postgresql","name":"srv","ts_ms":`
	if !strings.HasPrefix(got, want) {
		t.Errorf("payload\n%s, want it to begin with\n%s", got, want)
	}
}
