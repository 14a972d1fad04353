package postgres

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// slotLSN gives the slot's confirmed position as the server has it.
func (d *db) slotLSN() uint64 {
	d.t.Helper()
	rows := d.rows("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()")
	if len(rows) != 1 {
		d.t.Fatalf("%d slots", len(rows))
	}
	lsn, err := parseLSN(rows[0][0])
	if err != nil {
		d.t.Fatal(err)
	}
	return lsn
}

// TestConfirmsOnlyWhatIsDurable: without a Commit the slot does not move, whatever is polled and however long; it follows
// Commits and never goes back.
func TestConfirmsOnlyWhatIsDurable(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	r := streaming(t, d, "status.update.interval.ms", "10")
	d.exec(`INSERT INTO t VALUES (0)`)
	r.Until("the first is durable", func() bool { return len(r.Log) == 1 && r.Stored.Get(keyMessageType).Str() == typeCommit })
	first := uint64(r.Stored.Get(keyLSNCommit).Int())
	waitFor(t, "the slot to follow", func() bool { return d.slotLSN() == first })
	d.exec(`INSERT INTO t SELECT generate_series(1, 100)`)
	var offsets []connect.OffsetMap
	for len(r.Log) < 101 {
		if o := r.Poll(); o != nil {
			offsets = append(offsets, o)
		}
	}
	for range 20 {
		r.Poll()
		if got := d.slotLSN(); got != first {
			t.Fatalf("the slot confirms %s without a commit, which was %s", formatLSN(got), formatLSN(first))
		}
	}
	r.kill()
	r.Log = r.Log[:1]
	r.open()
	if got := len(r.Records(101)); got != 101 {
		t.Errorf("%d records after the kill, want 101", got)
	}
	_ = offsets
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// TestPositionMovesWhenNothingMatches: writes to tables that are not captured and to other databases move the slot.
func TestPositionMovesWhenNothingMatches(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE noise (v text)`)
	r := streaming(t, d, "table.include.list", "public.t", "publication.autocreate.mode", "filtered")
	neighbour, err := dial("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	defer neighbour.Close(context.Background())
	for i, write := range []func(){
		func() { d.exec(`INSERT INTO noise SELECT repeat('x', 100) FROM generate_series(1, 1000)`) },
		func() {
			if err := execute(context.Background(), neighbour, `CREATE TABLE IF NOT EXISTS busy (v text); INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 1000)`); err != nil {
				t.Fatal(err)
			}
		},
	} {
		write()
		end, err := parseLSN(d.rows("SELECT pg_current_wal_lsn()")[0][0])
		if err != nil {
			t.Fatal(err)
		}
		r.Until(fmt.Sprintf("write %d is passed", i), func() bool { return d.slotLSN() >= end })
	}
	if len(r.Log) != 0 {
		t.Errorf("%d records of nothing", len(r.Log))
	}
}

// TestAliveWithoutPolls: the server must not take the connection for dead while nobody polls.
func TestAliveWithoutPolls(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	d.exec(`ALTER SYSTEM SET wal_sender_timeout = '600ms'`)
	d.exec(`SELECT pg_reload_conf()`)
	defer func() {
		d.exec(`ALTER SYSTEM RESET wal_sender_timeout`)
		d.exec(`SELECT pg_reload_conf()`)
	}()
	waitFor(t, "the setting", func() bool { return d.rows("SHOW wal_sender_timeout")[0][0] == "600ms" })
	r := streaming(t, d)
	r.Poll()
	pid := d.rows("SELECT active_pid FROM pg_replication_slots WHERE database = current_database()")[0][0]
	d.exec(`INSERT INTO t SELECT generate_series(1, 10)`)
	started := time.Now()
	waitFor(t, "four timeouts to pass", func() bool { return time.Since(started) > 2400*time.Millisecond })
	if now := d.rows("SELECT active_pid FROM pg_replication_slots WHERE database = current_database()")[0][0]; now != pid {
		t.Errorf("the server ended the connection: pid %q, then %q", pid, now)
	}
	r.Records(10)
}

// TestConnectionsLost: the server's processes are killed again and again in the middle of transactions; each record comes
// once, in order.
func TestConnectionsLost(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY, v text)`)
	r := streaming(t, d, "max.batch.size", "50")
	const rows = 3000
	var writer sync.WaitGroup
	w := d.other()
	writer.Go(func() {
		for i := 0; i < rows; i += 100 {
			w.exec(fmt.Sprintf("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(%d, %d) i", i+1, i+100))
		}
	})
	defer writer.Wait()
	next := 500
	r.Until("all rows are there", func() bool {
		if len(r.Log) >= next {
			next += 500
			d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir%'")
		}
		return len(r.Log) >= rows
	})
	for i := range r.Log {
		if id := r.Log[i].Key.Items()[0].Int(); id != int64(i+1) {
			t.Fatalf("record %d has key %d", i, id)
		}
	}
	if len(r.Log) != rows {
		t.Errorf("%d records, want %d", len(r.Log), rows)
	}
}

// TestSnapshotConnectionLost: the snapshot begins again and the task goes on.
func TestSnapshotConnectionLost(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, repeat('x', 2000) FROM generate_series(1, 5000) i; CREATE TABLE b (id int PRIMARY KEY, v text); CREATE TABLE events (u uuid)`)
	r := newRunner(t, d.config("max.batch.size", "100")).open()
	defer r.Close()
	r.Records(1000)
	d.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir%'")
	r.finish(d)
	compare(t, d, r.Log)
}

func TestHeartbeat(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE beats (at timestamptz)`)
	r := streaming(t, d, "heartbeat.interval.ms", "20", "heartbeat.action.query", "INSERT INTO beats VALUES (now())", "table.include.list", "public.t")
	for _, e := range r.Records(3) {
		if e.Topic != "__debezium-heartbeat.srv" || e.Key.String() != `["srv"]` || e.KeySchema.Name != "io.debezium.connector.common.ServerNameKey" || e.Value.Items()[0].Int() == 0 {
			t.Errorf("heartbeat: %s %s %s", e.Topic, e.Key, e.Value)
		}
	}
	if len(d.rows("SELECT FROM beats")) == 0 {
		t.Error("the action query has not run")
	}
}

func TestStats(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 5)`)
	r := newRunner(t, d.config()).open()
	defer r.Close()
	r.Records(5)
	r.Until("the stream is connected", func() bool { return gauge(r, "connected") == 1 })
	if gauge(r, "snapshot_rows") != 5 || gauge(r, "snapshot_tables_remaining") != 0 || gauge(r, "snapshot_running") != 0 {
		t.Errorf("stats: %v", r.task.Stats())
	}
	d.exec(`INSERT INTO t VALUES (6)`)
	r.Records(6)
	r.Until("no lag is left", func() bool { return gauge(r, "lag_bytes") == 0 })
}

func gauge(r *runner, name string) float64 {
	for _, g := range r.task.Stats().Gauges {
		if g.Name == name {
			return g.Value
		}
	}
	r.T.Fatalf("no gauge %s", name)
	return 0
}

// TestTLS: reads that end with their deadline leave a TLS connection whole.
func TestTLS(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)`)
	wantError(t, openError(t, d.config("database.sslmode", "verify-full"), nil), connect.KindBadConfig, "database.sslrootcert", "certificate")
	r := newRunner(t, d.config("database.sslmode", "verify-full", "database.sslrootcert", server.rootCert)).open()
	defer r.Close()
	r.Records(1000)
	for i := range 3 {
		r.Poll()
		r.Poll()
		d.exec(fmt.Sprintf("INSERT INTO t SELECT generate_series(%d, %d)", 1001+i*100, 1100+i*100))
		r.Records(1100 + i*100)
	}
	if got := d.rows("SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_replication r USING (pid) JOIN pg_replication_slots p ON p.active_pid = r.pid WHERE s.ssl AND p.database = current_database()")[0][0]; got != "1" {
		t.Errorf("%s replication connections use TLS, want 1", got)
	}
}

// TestFewRights: a role that owns its tables and may replicate is enough for a filtered publication.
func TestFewRights(t *testing.T) {
	d := newDB(t)
	d.exec(`DROP ROLE IF EXISTS cdc; CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'weir'; GRANT CREATE ON DATABASE ` + quoteIdent(d.name) + ` TO cdc;
CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t OWNER TO cdc; CREATE TABLE other (id int PRIMARY KEY); INSERT INTO t VALUES (1)`)
	r := newRunner(t, d.config("database.user", "cdc", "table.include.list", "public.t", "publication.autocreate.mode", "filtered")).open()
	r.Records(1)
	d.exec(`INSERT INTO t VALUES (2)`)
	r.Records(2)
	r.Close()
	d.exec(`DROP OWNED BY cdc; DROP ROLE cdc`)
}

// TestFilteredPublicationFollowsTables: the publication carries what is captured at each start.
func TestFilteredPublicationFollowsTables(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t1 (id int PRIMARY KEY)`)
	c := d.config("table.include.list", `public\.t.*`, "publication.autocreate.mode", "filtered")
	r := newRunner(t, c).open()
	r.Until("the snapshot is complete", func() bool { return r.Stored.Get(keySnapshotCompleted).Bool() })
	r.Close()
	d.exec(`CREATE TABLE t2 (id int PRIMARY KEY)`)
	r.open()
	d.exec(`INSERT INTO t2 VALUES (1)`)
	if e := r.Records(1)[0]; e.Topic != "srv.public.t2" {
		t.Errorf("topic %s", e.Topic)
	}
	r.Close()
}

// TestTableLeavesPublication: a table that is dropped and made again leaves a publication of single tables, which is told.
func TestTableLeavesPublication(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	r := streaming(t, d, "table.include.list", "public.t", "publication.autocreate.mode", "filtered")
	r.Poll()
	if gauge(r, "unpublished_tables") != 0 {
		t.Error("a published table counts as unpublished")
	}
	d.exec(`DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)`)
	r.task.asked, r.task.audited = time.Time{}, time.Time{}
	r.Until("it is told", func() bool { return gauge(r, "unpublished_tables") == 1 })
}

// TestSlotWaitsForTransactions: a transaction that runs holds the slot back; polls end in time meanwhile, and a task that
// is killed while waiting can start again.
func TestSlotWaitsForTransactions(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	slow := d.other()
	slow.exec(`BEGIN; INSERT INTO t VALUES (1)`)
	r := newRunner(t, d.config()).open()
	for range 2 {
		r.Poll()
	}
	if r.task.phase != phaseSlot {
		t.Fatalf("phase %s while a transaction runs", r.task.phase)
	}
	r.kill()
	again := newRunner(t, r.Config)
	_, err := openTask(context.Background(), again.Instance())
	wantError(t, err, connect.KindRetry, "in use")
	slow.exec(`COMMIT`)
	again.open()
	if got := debeziumtest.Describe(again.Records(1)); got != "r[1]" {
		t.Error(got)
	}
	again.Close()
}

// TestServerFallsSilent: a server behind a dead link is noticed, and the stream is made anew.
func TestServerFallsSilent(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE t (id int PRIMARY KEY)`)
	link, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	var dead atomic.Bool
	go func() {
		for {
			near, err := link.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", server.port))
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go forward(near, far, &dead)
		}
	}()
	r := streaming(t, d, "database.port", strconv.Itoa(link.Addr().(*net.TCPAddr).Port), "status.update.interval.ms", "100")
	r.Until("the stream is open", func() bool { return r.task.stream != nil })
	r.task.stream.patience = time.Hour
	heard := false
	for range 50 { // an idle server answers the status updates, however slow the machine is
		before := r.task.stream.silent
		r.Poll()
		if heard = r.task.stream.silent <= before; heard {
			break
		}
	}
	if !heard {
		t.Fatal("an idle server is silent")
	}
	r.task.stream.patience = 500 * time.Millisecond
	dead.Store(true)
	d.exec(`INSERT INTO t VALUES (1)`)
	waitFor(t, "the silence to be noticed", func() bool {
		r.Poll()
		return r.task.stream == nil
	})
	dead.Store(false)
	d.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database() AND active_pid IS NOT NULL")
	if got := debeziumtest.Describe(r.Records(1)); got != "c[1]" {
		t.Error(got)
	}
}

// forward copies what the server says, or swallows it while the link is dead.
func forward(near, far net.Conn, dead *atomic.Bool) {
	defer near.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := far.Read(buf)
		if err != nil {
			return
		}
		if dead.Load() {
			continue
		}
		if _, err := near.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestHiddenRows: rows that a policy hides from the role are an error, not missing.
func TestHiddenRows(t *testing.T) {
	d := newDB(t)
	d.exec(`DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN REPLICATION PASSWORD 'weir'; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2);
ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id = 1); GRANT SELECT ON t TO blind; CREATE PUBLICATION dbz_publication FOR ALL TABLES`)
	r := newRunner(t, d.config("database.user", "blind")).open()
	var err error
	waitFor(t, "the snapshot to be refused", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		var b connect.Batch
		b, err = r.task.Poll(ctx)
		return len(b.Records) > 0 || err != nil
	})
	if err == nil {
		t.Fatal("the snapshot gives what the policy leaves")
	}
	wantError(t, err, connect.KindBadConfig, "row-level security")
	r.Close()
	d.exec(`DROP OWNED BY blind; DROP ROLE blind`)
}

// TestPublicationIsHeeded: a publication made by hand decides how partitions are given.
func TestPublicationIsHeeded(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE p (id int PRIMARY KEY, v text, secret text) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); INSERT INTO p VALUES (1, 'a', 's'), (5, 'e', 's');
CREATE PUBLICATION dbz_publication FOR TABLE p (id, v) WHERE (id < 5) WITH (publish_via_partition_root = true)`)
	r := newRunner(t, d.config("publication.autocreate.mode", "disabled")).open()
	r.Records(1)
	d.exec(`INSERT INTO p VALUES (2, 'b', 's'), (6, 'f', 's'), (3, 'c', 's')`)
	log := r.Records(3)
	if got := debeziumtest.Describe(log); got != "r[1] c[2] c[3]" {
		t.Errorf("records %s", got)
	}
	for _, e := range log {
		if e.Topic != "srv.public.p" || e.Schema != log[0].Schema || e.Schema.Fields[debezium.EnvelopeAfter].Schema.Field("secret") >= 0 {
			t.Errorf("topic %s, row %s", e.Topic, e.Value.Items()[debezium.EnvelopeAfter])
		}
	}
	r.Close()
}
