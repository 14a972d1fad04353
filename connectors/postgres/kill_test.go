package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// seed gives the seed of a random test, from WEIR_SEED if set.
func seed(t *testing.T) *rand.Rand {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("WEIR_SEED"); s != "" {
		n, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("WEIR_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 1))
}

// mark is a resume point and how much of the log it stands behind.
type durable struct {
	records int
	offset  connect.OffsetMap
}

// TestKilledAtRandom drops the task without a word at random points, in the snapshot and in the stream, and starts it
// from a durable offset that lags behind what was polled; of the records after that offset a random part had reached the
// log. At the end the log, replayed by key, must be the tables.
func TestKilledAtRandom(t *testing.T) {
	rng := seed(t)
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, 'start ' || i FROM generate_series(1, 400) i;
CREATE TABLE b (id int PRIMARY KEY, v text); ALTER TABLE b REPLICA IDENTITY FULL; INSERT INTO b SELECT i, 'start ' || i FROM generate_series(1, 300) i;
CREATE TABLE events (u uuid NOT NULL DEFAULT gen_random_uuid(), n int)`)
	r := newRunner(t, d.config("max.batch.size", "37"))
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 2 {
		w := d.other()
		mine := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
		writers.Go(func() { write(w, mine, stop) })
	}
	r.open()
	var marks []durable
	kills, early := 0, 0
	for kills < 25 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(30))*time.Millisecond)
		b, err := r.task.Poll(ctx)
		cancel()
		if err != nil && connect.KindOf(context.Background(), err) != connect.KindRetry {
			t.Fatal(err)
		}
		base := len(r.Log)
		for _, m := range b.Marks {
			marks = append(marks, durable{base + m.After, m.Offset})
		}
		r.Keep(b)
		if n := rng.IntN(len(marks) + 1); n > 0 && rng.IntN(3) == 0 {
			r.Commit(marks[n-1].offset)
			marks = append([]durable{{marks[n-1].records, marks[n-1].offset}}, marks[n:]...)
		}
		streaming := r.task.phase == phaseStream
		chance := 5
		if streaming {
			chance = 20
		}
		if early >= 8 && !streaming || rng.IntN(chance) > 0 {
			continue // eight kills before the stream, then let it begin
		}
		kills++
		if !streaming {
			early++
		}
		r.kill()
		least := 0
		if r.Stored != nil {
			least = marks[0].records
		}
		r.Log = r.Log[:least+rng.IntN(len(r.Log)-least+1)]
		marks = nil
		if r.Stored != nil {
			marks = []durable{{least, r.Stored}}
		}
		r.open()
	}
	close(stop)
	writers.Wait()
	t.Logf("%d kills, %d of them before the stream", kills, early)
	r.finish(d)
	r.Close()
	compare(t, d, r.Log)
}

// finish waits until the stream has given everything: a last row that is written when no snapshot is under way.
func (r *runner) finish(d *db) {
	r.T.Helper()
	r.Until("the snapshot is complete", func() bool {
		return r.Stored != nil && (!r.Stored.Has(keySnapshot) || r.Stored.Get(keySnapshotCompleted).Bool())
	})
	d.exec(`INSERT INTO a VALUES (-1, 'end')`)
	looked := 0
	r.Until("the last row is there", func() bool {
		for ; looked < len(r.Log); looked++ {
			if r.Log[looked].Topic == "srv.public.a" && r.Log[looked].Key.String() == "[-1]" {
				return true
			}
		}
		return false
	})
}

// compare checks the log's end against the tables.
func compare(t *testing.T, d *db, log []debeziumtest.Entry) {
	t.Helper()
	for _, table := range []string{"a", "b"} {
		got := debeziumtest.State(log, "srv.public."+table)
		rows := d.rows("SELECT id, v FROM " + table)
		for _, row := range rows {
			key, want := "["+row[0]+"]", fmt.Sprintf("[%s %q]", row[0], row[1])
			if got[key] != want {
				t.Errorf("%s: key %s ends as %s, want %s", table, key, got[key], want)
			}
			delete(got, key)
		}
		for key, v := range got {
			t.Errorf("%s: key %s ends as %s, but the row is gone", table, key, v)
		}
	}
	seen := map[string]bool{}
	for i := range log {
		if log[i].Topic == "srv.public.events" {
			seen[log[i].After("u").Str()] = true
		}
	}
	events := d.rows("SELECT u FROM events")
	for _, row := range events {
		if !seen[row[0]] {
			t.Errorf("events: row %s is missing", row[0])
		}
	}
	t.Logf("%d records in the log, %d rows without a key, %d seen", len(log), len(events), len(seen))
}

// write changes rows in transactions of all sizes until stop.
func write(w *db, rng *rand.Rand, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond): // or the tables outgrow the reader
		}
		table := []string{"a", "b"}[rng.IntN(2)]
		id := rng.IntN(500)
		sql := ""
		switch rng.IntN(7) {
		case 0:
			sql = fmt.Sprintf("INSERT INTO %s VALUES (%d, 'i%d') ON CONFLICT (id) DO UPDATE SET v = excluded.v", table, id, n)
		case 1:
			sql = fmt.Sprintf("UPDATE %s SET v = 'u%d' WHERE id BETWEEN %d AND %d", table, n, id, id+rng.IntN(60))
		case 2:
			sql = fmt.Sprintf("DELETE FROM %s WHERE id BETWEEN %d AND %d", table, id, id+rng.IntN(5))
		case 3:
			sql = fmt.Sprintf("UPDATE %s SET id = id + 1000 * (CASE WHEN id < 1000 THEN 1 ELSE -1 END) WHERE id = %d AND NOT EXISTS (SELECT FROM %s WHERE id = %d)", table, id, table, id+1000)
		case 4:
			sql = fmt.Sprintf("INSERT INTO %s SELECT i, 'm%d' FROM generate_series(%d, %d) i ON CONFLICT DO NOTHING", table, n, id, id+rng.IntN(80))
		case 5:
			sql = fmt.Sprintf("INSERT INTO events (n) SELECT i FROM generate_series(1, %d) i", 1+rng.IntN(20))
		case 6:
			sql = fmt.Sprintf("BEGIN; UPDATE a SET v = 't%d' WHERE id = %d; SAVEPOINT s; INSERT INTO events (n) VALUES (%d); UPDATE b SET v = 't%d' WHERE id = %d; %s COMMIT",
				n, id, n, n, id, []string{"", "ROLLBACK TO s;", "RELEASE s;"}[rng.IntN(3)])
		}
		if err := execute(context.Background(), w.conn, sql); err != nil {
			_ = execute(context.Background(), w.conn, "ROLLBACK") // a deadlock or a key taken meanwhile: the next will do
		}
	}
}

// TestSharedLSN: rows of one statement may share an LSN; what was acknowledged of them does not come again, the rest does.
func TestSharedLSN(t *testing.T) {
	for _, done := range []int{1, 10, 19} {
		d := newDB(t)
		d.exec(`CREATE TABLE t (id int PRIMARY KEY, v text)`)
		r := newRunner(t, d.config("snapshot.mode", "no_data", "max.batch.size", "3")).open() // one record a batch
		r.Until("the slot is there", func() bool { return r.Stored != nil })
		d.exec(`COPY t FROM PROGRAM 'seq 1 20 | sed "s/$/\tx/"'`)
		shared := map[int64]int{}
		for len(r.Log) < done {
			offset := r.Poll()
			if len(r.Log) > 0 {
				r.Commit(offset)
			}
		}
		r.kill()
		r.open()
		log := r.Records(20)
		for i := range log {
			if id := log[i].Key.Items()[0].Int(); id != int64(i+1) {
				t.Fatalf("after %d: record %d has key %d; %s", done, i, id, debeziumtest.Describe(log))
			}
			shared[log[i].Source("lsn").Int()]++
		}
		if len(shared) == 20 {
			t.Error("no two rows share an LSN: the test shows nothing")
		}
		r.Close()
	}
}

// TestInterleaved: changes of a transaction that commits later have lower LSNs than ones that were acknowledged.
func TestInterleaved(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE long (id int PRIMARY KEY); CREATE TABLE short (id int PRIMARY KEY)`)
	r := newRunner(t, d.config("snapshot.mode", "no_data")).open()
	r.Until("the slot is there", func() bool { return r.Stored != nil })
	slow := d.other()
	slow.exec(`BEGIN; INSERT INTO long SELECT generate_series(1, 5)`)
	d.exec(`INSERT INTO short VALUES (90)`)
	slow.exec(`INSERT INTO long SELECT generate_series(6, 10)`)
	r.Records(1)
	r.Until("its commit is durable", func() bool { return r.Stored.Get(keyMessageType).Str() == typeCommit })
	r.kill()
	slow.exec(`COMMIT`)
	r.open()
	if got := debeziumtest.Describe(r.Records(11)); got != "c[90] c[1] c[2] c[3] c[4] c[5] c[6] c[7] c[8] c[9] c[10]" {
		t.Error(got)
	}
	r.Close()
}

// TestRowDeletedBetweenSnapshots: a row that only the snapshot cut short has seen ends deleted.
func TestRowDeletedBetweenSnapshots(t *testing.T) {
	d := newDB(t)
	d.exec(`CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT i, 'x' FROM generate_series(1, 100) i; CREATE TABLE b (id int PRIMARY KEY, v text); CREATE TABLE events (u uuid)`)
	r := newRunner(t, d.config("max.batch.size", "10")).open()
	for len(r.Log) < 50 {
		r.Commit(r.Poll())
	}
	if r.Stored.Get(keySnapshotCompleted).Bool() || !r.Stored.Has(keySnapshot) {
		t.Fatalf("the snapshot is not under way: %s", r.Stored)
	}
	r.kill()
	d.exec(`DELETE FROM a WHERE id <= 20; UPDATE a SET v = 'y' WHERE id = 30; UPDATE a SET id = 1000 WHERE id = 40; INSERT INTO a VALUES (101, 'new')`)
	r.open()
	r.finish(d)
	r.Close()
	compare(t, d, r.Log)
}
