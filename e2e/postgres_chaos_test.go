package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// replayed reads a topic of Debezium's envelopes and gives what is left of each key: the row's JSON fields.
func (n *node) replayed(topic string) map[string]map[string]any {
	n.t.Helper()
	rows := map[string]map[string]any{}
	for line := range strings.Lines(n.kcat("", "-q", "-C", "-t", topic, "-o", "beginning", "-e", "-f", "%k\t%s\n")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		var event struct {
			Op    string
			After map[string]any
		}
		if value != "" {
			if err := json.Unmarshal([]byte(value), &event); err != nil {
				n.t.Fatalf("%v in %q", err, line)
			}
		}
		if event.After == nil { // a delete, or its tombstone
			delete(rows, key)
			continue
		}
		rows[key] = event.After
	}
	return rows
}

// caughtUp waits until the slot has confirmed all that is written now.
func (n *node) caughtUp(s services, database string) {
	n.t.Helper()
	now := s.psql(n.t, "postgres", "SELECT pg_current_wal_lsn()")
	eventually(n.t, 40*time.Second, func() (bool, string) {
		at := s.psql(n.t, "postgres", "SELECT confirmed_flush_lsn >= '"+now+"', confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '"+database+"'")
		return strings.HasPrefix(at, "t"), fmt.Sprintf("%s of %s, %+v", at, now, n.status(database))
	})
}

// TestPostgresSurvivesKillsOfBothSides: rows change all the time, deletes, key changes and roll-backs among them, while weir is
// killed and the server ends its connections, during the snapshot too. What is left of each key is the table, and the sequence
// that every committed transaction has advanced is complete and in order.
func TestPostgresSurvivesKillsOfBothSides(t *testing.T) {
	s := shared(t)
	const db = "bothsides"
	newDatabase(t, s, db)
	s.psql(t, db, `CREATE TABLE item (a int, b text, v int, PRIMARY KEY (a, b)); CREATE TABLE step (id bigint PRIMARY KEY);
INSERT INTO item SELECT g, 'k', 0 FROM generate_series(1, 5000) g;
CREATE PROCEDURE work(seconds float) LANGUAGE plpgsql AS $$
DECLARE until timestamptz := clock_timestamp() + seconds * interval '1 second'; n bigint := 0; x int;
BEGIN
  WHILE clock_timestamp() < until LOOP
    x := 1 + floor(random() * 5000);
    n := n + 1; INSERT INTO step VALUES (n);
    UPDATE item SET v = v + 1 WHERE a = x;
    IF n % 3 = 0 THEN DELETE FROM item WHERE a = x; END IF;
    IF n % 4 = 0 THEN INSERT INTO item VALUES (x, 'k', n) ON CONFLICT DO NOTHING; END IF;
    IF n % 5 = 0 THEN UPDATE item SET b = 'moved' || n WHERE a = x AND b = 'k'; END IF;
    COMMIT;
    INSERT INTO step VALUES (-n); ROLLBACK;
  END LOOP;
END $$`)
	n := startNode(t, s)
	rng := chaosSeed(t)
	if code, body := n.put(db, postgresConfig(s, db, "public\\.(item|step)")); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	worked := make(chan string, 1)
	go func() {
		out, err := exec.CommandContext(t.Context(), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "CALL work(8)",
			"postgres://postgres:weir@"+s.postgres+"/"+db).CombinedOutput()
		worked <- fmt.Sprintf("%v %s", err, out)
	}()
	for i := range 8 {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // the moment of the fault
		if i%3 == 2 {
			s.psql(t, "postgres", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND slot_name = '"+db+"'")
			continue
		}
		n.kill()
		n.start()
	}
	if said := <-worked; said != "<nil> " {
		t.Fatal(said)
	}
	n.caughtUp(s, db)
	want := map[string]string{}
	for row := range strings.Lines(s.psql(t, db, "SELECT a || '/' || b, v FROM item") + "\n") {
		key, v, _ := strings.Cut(strings.TrimSpace(row), "|")
		want[key] = v
	}
	got := map[string]string{}
	for _, row := range n.replayed(db + ".public.item") {
		got[fmt.Sprintf("%v/%v", row["a"], row["b"])] = fmt.Sprint(row["v"])
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d rows in the log, %d in the table, and they differ", len(got), len(want))
	}
	checkSteps(t, n, "bothsides.public.step", s.psql(t, db, "SELECT count(*) FROM step"))
	n.kill()
	dropSlots(t, s, db)
}

// checkSteps looks at the keys 1, 2, 3 … of a topic of steps: all are there, first seen in order. It gives their number.
func checkSteps(t *testing.T, n *node, topic, want string) int {
	t.Helper()
	highest := 0
	for line := range strings.Lines(n.kcat("", "-q", "-C", "-t", topic, "-o", "beginning", "-e", "-f", "%k\n")) {
		var key struct{ ID int }
		if err := json.Unmarshal([]byte(line), &key); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if key.ID < 0 {
			t.Fatalf("step %d was rolled back", key.ID)
		}
		if key.ID > highest+1 {
			t.Fatalf("step %d comes after %d", key.ID, highest)
		}
		highest = max(highest, key.ID)
	}
	if fmt.Sprint(highest) != want {
		t.Errorf("%d steps in the log, %s in the table", highest, want)
	}
	return highest
}

// TestTablesChangeWhileNobodyLooks: columns come, go and change while weir is down, a table is made again with other columns,
// and each event has the columns that its row had.
func TestTablesChangeWhileNobodyLooks(t *testing.T) {
	s := shared(t)
	const db = "reshaped"
	newDatabase(t, s, db)
	s.psql(t, db, "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
	n := startNode(t, s)
	n.apply(db, postgresConfig(s, db, "public\\.t"))
	n.caughtUp(s, db)
	n.kill()
	for _, sql := range []string{
		"UPDATE t SET a = 10 WHERE id = 1", "ALTER TABLE t ADD COLUMN b text DEFAULT 'x'", "UPDATE t SET a = 20 WHERE id = 2",
		"ALTER TABLE t DROP COLUMN a", "UPDATE t SET b = 'y' WHERE id = 3", "ALTER TABLE t RENAME b TO c", "ALTER TABLE t ALTER c TYPE varchar(9)",
		"UPDATE t SET c = 'z' WHERE id = 4", "BEGIN; DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, d bigint); ALTER PUBLICATION " + db + " ADD TABLE t; COMMIT",
		"INSERT INTO t VALUES (5, 50)",
	} {
		s.psql(t, db, sql)
	}
	n.start()
	n.caughtUp(s, db)
	got, err := json.Marshal(n.replayed(db + ".public.t"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"{\"id\":1}":{"a":10,"id":1},"{\"id\":2}":{"a":20,"b":"x","id":2},"{\"id\":3}":{"b":"y","id":3},` +
		`"{\"id\":4}":{"c":"z","id":4},"{\"id\":5}":{"d":50,"id":5}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	n.kill()
	dropSlots(t, s, db)
}
