package postgres

import (
	"testing"

	"github.com/weirlog/weir/connect"
)

// TestSnapshotThenStream walks the whole path: snapshot markers, stream operations, keys, tombstones, offsets, resume.
func TestSnapshotThenStream(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, 3) i;
CREATE TABLE b (x int NOT NULL, y int NOT NULL, v text, PRIMARY KEY (y, x)); INSERT INTO b VALUES (1, 2, 'ü')`)
	r := newRunner(t, d.config()).open()
	log := r.records(4)
	for i, want := range []string{"first", "true", "last_in_data_collection", "last"} {
		if got := log[i].source("snapshot").Str(); got != want || log[i].op() != "r" {
			t.Errorf("record %d: marker %q, op %q; want %q, r", i, got, log[i].op(), want)
		}
	}
	if got := describe(log); got != "r[1] r[2] r[3] r[2 1]" {
		t.Errorf("snapshot: %s", got)
	}
	if log[0].topic != "srv.public.a" || log[0].keySchema.Name != "srv.public.a.Key" || log[0].schema.Name != "srv.public.a.Envelope" || log[0].schema.Version != 2 {
		t.Errorf("names: %s %s %s", log[0].topic, log[0].keySchema.Name, log[0].schema.Name)
	}
	r.until("the snapshot is complete", func() bool {
		return r.stored != nil && !r.stored.Has(keySnapshot) || r.stored.Get(keySnapshotCompleted).Bool()
	})
	r.log = nil
	d.exec(`INSERT INTO a VALUES (4, 'four')`)
	d.exec(`UPDATE a SET v = 'vier' WHERE id = 4`)
	d.exec(`UPDATE a SET id = 5 WHERE id = 4`)
	d.exec(`DELETE FROM a WHERE id = 1`)
	log = r.records(7)
	if got := describe(log); got != "c[4] u[4] d[4] tombstone[4] c[5] d[1] tombstone[1]" {
		t.Errorf("stream: %s", got)
	}
	if h := log[2].headers; len(h) != 5 || h[0].Key != "__debezium.newkey" || h[0].Value.Value().String() != "[5]" {
		t.Errorf("headers of the old key's delete: %v", h)
	}
	if h := log[3].headers; len(h) != 5 || h[0].Key != "__debezium.newkey" {
		t.Errorf("headers of the old key's tombstone: %v", h)
	}
	if h := log[4].headers; len(h) != 5 || h[0].Key != "__debezium.oldkey" || h[0].Value.Value().String() != "[4]" {
		t.Errorf("headers of the new key's create: %v", h)
	}
	if log[0].source("snapshot").Str() != "false" || log[0].source("lsn").Int() == 0 || log[0].source("txId").Int() == 0 {
		t.Errorf("source block: %v", log[0].value)
	}
	r.until("the last transaction is committed", func() bool { return r.stored.Get(keyMessageType).Str() == typeCommit && !r.stored.Has(keySnapshot) })
	r.close()
	r.log = nil
	d.exec(`INSERT INTO a VALUES (6, 'six')`)
	r.open()
	if got := describe(r.records(1)); got != "c[6]" {
		t.Errorf("after resume: %s", got)
	}
	r.close()
}

func TestOffsetForm(t *testing.T) {
	p := position{commit: 24023000, inside: true, xid: 555, lsn: 24023136, same: 1, kind: typeInsert, micros: 1700000000123456}
	got := connect.OffsetMap(p.offset(nil)).String()
	want := `{"lsn_proc":24023136,"messageType":"INSERT","lsn_commit":24023000,"lsn":24023136,"txId":555,"ts_usec":1700000000123456,"lsn_events_processed":1}`
	if got != want {
		t.Errorf("offset\n %s, want\n %s", got, want)
	}
}
