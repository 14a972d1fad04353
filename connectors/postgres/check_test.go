package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// openError opens a task that must not open.
func openError(t *testing.T, c connect.Config, stored connect.OffsetMap) error {
	t.Helper()
	r := newRunner(t, c)
	r.Stored = stored
	opened, err := openTask(context.Background(), r.Instance())
	if err == nil {
		_ = opened.Close(context.Background())
		t.Fatal("the task opened")
	}
	return err
}

func wantError(t *testing.T, err error, kind connect.ErrorKind, words ...string) {
	t.Helper()
	if got := connect.KindOf(context.Background(), err); got != kind {
		t.Errorf("kind %d, want %d: %v", got, kind, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("the password is in the error: %v", err)
	}
}

func TestConfigFaults(t *testing.T) {
	base := connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
	for _, test := range []struct{ key, value, says string }{
		{"plugin.name", "wal2json", "only pgoutput"},
		{"provide.transaction.metadata", "true", "remove the key"},
		{"column.mask.with.5.chars", "public.t.c", "not supported"},
		{"snapshot.select.statement.overrides.public.t", "SELECT 1", "not supported"},
		{"table.include.list", "public.(", "not a usable regular expression"},
		{"table.include.list", `public\.(?!x).*`, "not a usable regular expression"},
		{"topic.prefix", "a b", "characters"},
		{"slot.name", "Slot-1", "not a slot name"},
		{"snapshot.mode", "sometimes", "must be one of"},
		{"skipped.operations", "x", "none of c, u, d, t"},
		{"message.key.columns", "public.t", "table:column"},
		{"unavailable.value.placeholder", "hex:zz", "hexadecimal"},
		{"database.hostname", "", "non-empty"},
	} {
		c := connect.Config{test.key: test.value}
		for k, v := range base {
			if _, given := c[k]; !given {
				c[k] = v
			}
		}
		_, err := parseSettings(c)
		if err == nil {
			t.Errorf("%s=%s is accepted", test.key, test.value)
			continue
		}
		wantError(t, err, connect.KindBadConfig, test.says)
	}
	c := connect.Config{"table.include.list": "a.b", "table.exclude.list": "a.c"}
	for k, v := range base {
		c[k] = v
	}
	_, err := parseSettings(c)
	wantError(t, err, connect.KindBadConfig, "exclude each other")
	s, err := parseSettings(connect.Config{"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "snapshot.mode": "never", "max.queue.size": "100"})
	if err != nil || s.SnapshotMode != "no_data" || len(s.Notes) != 2 {
		t.Errorf("never: mode %v, notes %v, error %v", s.SnapshotMode, s.Notes, err)
	}
}

func TestServerFaults(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE accounts (id int PRIMARY KEY); CREATE TABLE nokey (v text);
DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'weir'; DROP ROLE IF EXISTS repl; CREATE ROLE repl LOGIN REPLICATION PASSWORD 'weir'`)
	wantError(t, openError(t, d.config("database.password", "wrong-secret"), nil), connect.KindBadConfig, "database.password", "postgres")
	wantError(t, openError(t, d.config("database.dbname", "nowhere"), nil), connect.KindBadConfig, "database.dbname", `no database "nowhere"`)
	wantError(t, openError(t, d.config("database.port", "1"), nil), connect.KindRetry, "127.0.0.1:1")
	wantError(t, openError(t, d.config("table.include.list", "public.acounts"), nil), connect.KindBadConfig, "table.include.list", "public.acounts", "did you mean public.accounts?")
	wantError(t, openError(t, d.config("publication.autocreate.mode", "disabled"), nil), connect.KindBadConfig, "dbz_publication", "CREATE PUBLICATION")
	wantError(t, openError(t, d.config("database.user", "plain"), nil), connect.KindBadConfig, `ALTER ROLE "plain" REPLICATION`, `GRANT SELECT ON "public"."accounts" TO "plain"`)
	d.exec(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO repl`)
	wantError(t, openError(t, d.config("database.user", "repl"), nil), connect.KindBadConfig, "publication.autocreate.mode", "CREATE PUBLICATION")
	findings, err := check(context.Background(), connect.Instance{Config: d.config()})
	if err != nil || len(findings) != 1 || findings[0].Fatal || !strings.Contains(findings[0].Mend, `ALTER TABLE "public"."nokey" REPLICA IDENTITY FULL`) {
		t.Errorf("check: %v, %v", findings, err)
	}
	d.exec(`DROP OWNED BY repl; DROP ROLE plain; DROP ROLE repl`)
}

func TestSlotFaults(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text); CREATE TABLE events (u uuid)`)
	c := d.config()
	r := newRunner(t, c).open()
	r.finish(d)
	r.Until("the position is durable", func() bool { return !r.Stored.Has(keySnapshot) })
	wantError(t, openError(t, c, r.Stored), connect.KindRetry, "in use")
	r.Close()

	slot := c["slot.name"]
	waitFor(t, "the slot to be free", func() bool {
		return d.rows("SELECT active FROM pg_replication_slots WHERE slot_name = '" + slot + "'")[0][0] == "f"
	})
	d.exec(`SELECT pg_drop_replication_slot('` + slot + `'); INSERT INTO a VALUES (1, 'lost')`)
	wantError(t, openError(t, c, r.Stored), connect.KindOther, "does not exist any more", "when_needed")
	d.exec(`SELECT pg_create_logical_replication_slot('` + slot + `', 'pgoutput')`)
	wantError(t, openError(t, c, r.Stored), connect.KindOther, "ahead of the stored position", "trust_slot")

	beyond := (&position{commit: 1 << 50, kind: typeCommit}).offset(nil)
	wantError(t, openError(t, c, beyond), connect.KindOther, "ends at", "before the stored position")

	c["snapshot.mode"] = "when_needed" // reads the tables again
	r.Log = nil
	r.open()
	r.Until("the lost row is there", func() bool { return debeziumtest.State(r.Log, "srv.public.a")["[1]"] != "" })
	r.Close()
	compare(t, d, r.Log)

	waitFor(t, "the slot to be free", func() bool {
		return d.rows("SELECT active FROM pg_replication_slots WHERE slot_name = '" + slot + "'")[0][0] == "f"
	})
	d.exec(`SELECT pg_drop_replication_slot('` + slot + `'); SELECT pg_create_logical_replication_slot('` + slot + `', 'test_decoding')`)
	wantError(t, openError(t, c, nil), connect.KindBadConfig, "test_decoding", "pg_drop_replication_slot")
}

func TestSnapshotModes(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)`)
	c := d.config("snapshot.mode", "initial_only")
	r := newRunner(t, c).open()
	r.Records(1)
	r.Until("the snapshot is complete", func() bool { return r.Stored.Get(keySnapshotCompleted).Bool() })
	d.exec(`INSERT INTO t VALUES (2)`)
	for range 3 {
		r.Poll()
	}
	r.Close()
	if n := d.rows("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")[0][0]; n != "0" {
		t.Errorf("initial_only left %s slots", n)
	}
	r.open()
	r.Poll()
	r.Close()
	if got := debeziumtest.Describe(r.Log); got != "r[1]" {
		t.Errorf("initial_only: %s", got)
	}
	c["snapshot.mode"] = "always"
	r.Stored, r.Log = nil, nil
	r.open()
	r.Records(2)
	d.exec(`INSERT INTO t VALUES (3)`)
	r.Until("the insert is durable", func() bool { return len(r.Log) == 3 && r.Stored.Get(keyMessageType).Str() == typeCommit })
	r.Close()
	r.open()
	if got := debeziumtest.Describe(r.Records(6)); got != "r[1] r[2] c[3] r[1] r[2] r[3]" {
		t.Errorf("always: %s", got)
	}
	r.Close()
}

func TestSlotDroppedOnStop(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	r := newRunner(t, d.config("slot.drop.on.stop", "true", "snapshot.mode", "no_data")).open()
	r.Until("the slot is there", func() bool { return r.Stored != nil })
	r.Poll()
	r.Close()
	if n := d.rows("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")[0][0]; n != "0" {
		t.Errorf("%s slots are left", n)
	}
}

// TestDebeziumOffsets: offsets as Debezium writes them are resumed from.
func TestDebeziumOffsets(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	c := d.config("snapshot.mode", "no_data")
	r := newRunner(t, c).open()
	r.Until("the slot is there", func() bool { return r.Stored != nil })
	d.exec(`INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)`)
	d.exec(`BEGIN; INSERT INTO t VALUES (3); INSERT INTO t VALUES (4); COMMIT`)
	for len(r.Log) < 4 {
		r.Poll() // nothing is committed: the slot stays
	}
	third := r.Log[2]
	commit := strings.Split(strings.Trim(third.Source("sequence").Str(), `[]"`), `"`)[0]
	r.kill()
	for _, test := range []struct{ offset, want string }{
		{`{"lsn_proc":` + third.Source("lsn").String() + `,"messageType":"INSERT","lsn_commit":` + commit + `,"lsn":` + third.Source("lsn").String() + `,"txId":` + third.Source("txId").String() + `,"ts_usec":1}`, "c[4]"},
		{`{"transaction_id":null,"lsn_proc":` + commit + `,"messageType":"COMMIT","lsn_commit":` + commit + `,"lsn":` + commit + `,"txId":1,"ts_usec":1}`, "c[3] c[4]"},
		{`{"lsn":` + commit + `,"txId":1,"ts_usec":1,"snapshot":true,"last_snapshot_record":true}`, "c[3] c[4]"},
		{`{"lsn":` + commit + `,"snapshot":"INITIAL","snapshot_completed":true}`, "c[3] c[4]"},
	} {
		stored, err := connect.ParseOffsetMap([]byte(test.offset))
		if err != nil {
			t.Fatal(err)
		}
		r.Stored, r.Log = stored, nil
		r.open()
		for len(r.Log) == 0 || r.Log[len(r.Log)-1].Key.String() != "[4]" {
			r.Poll()
		}
		if got := debeziumtest.Describe(r.Log); got != test.want {
			t.Errorf("%s: %s, want %s", test.offset, got, test.want)
		}
		r.kill()
	}
}
