package postgres

import (
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// TestSnapshotThenStream walks the whole path: snapshot markers, stream operations, keys, tombstones, offsets, resume.
func TestSnapshotThenStream(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, 3) i;
CREATE TABLE b (x int NOT NULL, y int NOT NULL, v text, PRIMARY KEY (y, x)); INSERT INTO b VALUES (1, 2, 'ü')`)
	r := newRunner(t, d.config()).open()
	log := r.Records(4)
	for i, want := range []string{"first", "true", "last_in_data_collection", "last"} {
		if got := log[i].Source("snapshot").Str(); got != want || log[i].Op() != "r" {
			t.Errorf("record %d: marker %q, op %q; want %q, r", i, got, log[i].Op(), want)
		}
	}
	if got := debeziumtest.Describe(log); got != "r[1] r[2] r[3] r[2 1]" {
		t.Errorf("snapshot: %s", got)
	}
	if log[0].Topic != "srv.public.a" || log[0].KeySchema.Name != "srv.public.a.Key" || log[0].Schema.Name != "srv.public.a.Envelope" || log[0].Schema.Version != 2 {
		t.Errorf("names: %s %s %s", log[0].Topic, log[0].KeySchema.Name, log[0].Schema.Name)
	}
	r.Until("the snapshot is complete", func() bool {
		return r.Stored != nil && !r.Stored.Has(keySnapshot) || r.Stored.Get(keySnapshotCompleted).Bool()
	})
	r.Log = nil
	d.exec(`INSERT INTO a VALUES (4, 'four')`)
	d.exec(`UPDATE a SET v = 'vier' WHERE id = 4`)
	d.exec(`UPDATE a SET id = 5 WHERE id = 4`)
	d.exec(`DELETE FROM a WHERE id = 1`)
	log = r.Records(7)
	if got := debeziumtest.Describe(log); got != "c[4] u[4] d[4] tombstone[4] c[5] d[1] tombstone[1]" {
		t.Errorf("stream: %s", got)
	}
	if h := log[2].Headers; len(h) != 5 || h[0].Key != "__debezium.newkey" || h[0].Value.Value().String() != "[5]" {
		t.Errorf("headers of the old key's delete: %v", h)
	}
	if h := log[3].Headers; len(h) != 5 || h[0].Key != "__debezium.newkey" {
		t.Errorf("headers of the old key's tombstone: %v", h)
	}
	if h := log[4].Headers; len(h) != 5 || h[0].Key != "__debezium.oldkey" || h[0].Value.Value().String() != "[4]" {
		t.Errorf("headers of the new key's create: %v", h)
	}
	if log[0].Source("snapshot").Str() != "false" || log[0].Source("lsn").Int() == 0 || log[0].Source("txId").Int() == 0 {
		t.Errorf("source block: %v", log[0].Value)
	}
	r.Until("the last transaction is committed", func() bool { return r.Stored.Get(keyMessageType).Str() == typeCommit && !r.Stored.Has(keySnapshot) })
	r.Close()
	r.Log = nil
	d.exec(`INSERT INTO a VALUES (6, 'six')`)
	r.open()
	if got := debeziumtest.Describe(r.Records(1)); got != "c[6]" {
		t.Errorf("after resume: %s", got)
	}
	r.Close()
}

func TestOffsetForm(t *testing.T) {
	p := position{commit: 24023000, inside: true, xid: 555, lsn: 24023136, same: 1, kind: typeInsert, micros: 1700000000123456}
	got := connect.OffsetMap(p.offset(nil)).String()
	want := `{"lsn_proc":24023136,"messageType":"INSERT","lsn_commit":24023000,"lsn":24023136,"txId":555,"ts_usec":1700000000123456,"lsn_events_processed":1}`
	if got != want {
		t.Errorf("offset\n %s, want\n %s", got, want)
	}
}
