package binlog

import (
	"fmt"
	"testing"
)

// cut is a moment of a stream: what has been seen by then, and the restart point.
type cut struct {
	seen   []string
	offset Offset
}

// wholeNumbers reads rows of a table whose only column is an INT NOT NULL.
func wholeNumbers(r *Rows) []string {
	size := 5 // a null bitmap and the number
	if r.Kind == Update {
		size = 10
	}
	var out []string
	for data := r.Data; len(data) >= size; data = data[size:] {
		out = append(out, fmt.Sprintf("%s %s %x", tell(&Rows{Table: r.Table, Kind: r.Kind}), r.Table.Database, data[:size]))
	}
	return out
}

// follow reads rows and statements up to a last statement, and cuts behind each event and each row.
func follow(t testing.TB, s *Stream, last string) (facts []string, cuts []cut) {
	t.Helper()
	here := func(o Offset) { cuts = append(cuts, cut{append([]string(nil), facts...), o}) }
	for {
		here(s.Offset())
		switch e := next(t, s).(type) {
		case *Rows:
			rows := wholeNumbers(e)
			for i := e.Skip; i < len(rows); i++ {
				facts = append(facts, rows[i])
				here(s.OffsetInRows(i + 1))
			}
		case *Query:
			facts = append(facts, e.SQL)
			if e.SQL == last {
				return facts, cuts
			}
		}
	}
}

// withoutTime is want with the last event's server and time of o.
func withoutTime(o, want Offset) Offset {
	want.ServerID, want.Seconds = o.ServerID, o.Seconds
	return want
}

// TestRestartAnywhere is the law of offsets: cut behind any event and any row, go on from what would be stored, and
// everything comes exactly once.
func TestRestartAnywhere(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		for _, variant := range []string{"plain", "compressed", "annotated"} {
			t.Run(variant, func(t *testing.T) {
				db := srv.database(t)
				start := srv.here(t)
				session := []string{"USE " + db}
				if variant == "compressed" && srv.dialect == MySQL {
					session = append(session, "SET SESSION binlog_transaction_compression=ON")
				}
				if variant == "annotated" && srv.dialect == MySQL {
					session = append(session, "SET SESSION binlog_rows_query_log_events=ON")
				}
				last := "CREATE TABLE c (id INT)"
				srv.exec(t, append(session, "CREATE TABLE a (id INT NOT NULL)", "CREATE DATABASE IF NOT EXISTS other", "DROP TABLE IF EXISTS other.a", "CREATE TABLE other.a (id INT NOT NULL)",
					"INSERT INTO a VALUES (1),(2),(3)", "BEGIN", "INSERT INTO a VALUES (4),(5)", "INSERT INTO other.a VALUES (1),(2)",
					"UPDATE a SET id=id+10 WHERE id<4", "SAVEPOINT s", "DELETE FROM a WHERE id>3", "COMMIT", "FLUSH BINARY LOGS",
					"INSERT INTO a VALUES (6)", last)...)
				cfg := srv.config(db)
				cfg.Annotate = variant == "annotated"
				byPlace := start
				byPlace.GTIDs = ""
				for name, from := range map[string]Offset{"gtid": start, "place": byPlace} {
					all, cuts := follow(t, open(t, cfg, from), last)
					if len(all) < 12 || len(cuts) < 20 {
						t.Fatalf("only %d facts and %d cuts: %v", len(all), len(cuts), all)
					}
					for _, c := range cuts {
						stored, err := ReadOffset(c.offset.Append(nil))
						if err != nil {
							t.Fatal(err)
						}
						cfg.ServerID++ // MariaDB takes its time to throw out a replica that comes again
						s := open(t, cfg, stored)
						rest, again := follow(t, s, last)
						_ = s.Close()
						if len(again) > 1 && len(again[1].seen) == 0 && again[1].offset.Pos == stored.Pos && stored.Event > 0 && again[1].offset != withoutTime(again[1].offset, stored) {
							t.Errorf("by %s, restarted at %+v: behind the transaction's begin the offset is %+v", name, stored, again[1].offset)
						}
						if got := append(append([]string(nil), c.seen...), rest...); fmt.Sprint(got) != fmt.Sprint(all) {
							t.Errorf("by %s, restarted at %+v:\n got %v\nwant %v", name, stored, got, all)
						}
					}
				}
			})
		}
	})
}

// TestOffsetsCountAsDebezium: BEGIN (or MariaDB's GTID event), each table map and each rows event count one.
func TestOffsetsCountAsDebezium(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		srv.exec(t, "USE "+db, "BEGIN", "INSERT INTO a VALUES (1),(2)", "INSERT INTO a VALUES (3)", "COMMIT")
		cfg := srv.config(db)
		s := open(t, cfg, start)
		begin := next(t, s).(*Begin)
		place := Position{begin.File, begin.Start}
		check := func(o Offset, event, row int) {
			t.Helper()
			if (Position{o.File, o.Pos}) != place || o.GTIDs != start.GTIDs || o.Event != event || o.Row != row || o.ServerID != 1 || o.Seconds == 0 {
				t.Errorf("offset %+v, want %s, gtids %s, event %d, row %d", o, place, start.GTIDs, event, row)
			}
		}
		check(s.Offset(), 1, 0)
		next(t, s)
		check(s.OffsetInRows(1), 2, 1)
		check(s.OffsetInRows(2), 2, 2)
		check(s.Offset(), 3, 0)
		next(t, s)
		check(s.OffsetInRows(1), 4, 1)
		next(t, s)
		if got, want := s.Offset(), srv.here(t); got.Pos != want.Pos || got.GTIDs != want.GTIDs || got.Event != 0 || got.Row != 0 {
			t.Errorf("behind the transaction: %+v, want %+v", got, want)
		}
	})
}

// TestPartOfATransactionOnAnotherServer: counts made elsewhere are not obeyed; the transaction comes whole.
func TestPartOfATransactionOnAnotherServer(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		srv.exec(t, "USE "+db, "INSERT INTO a VALUES (1),(2)", "DROP TABLE a")
		elsewhere := Offset{File: "mysql-bin.000100", Pos: 777, GTIDs: start.GTIDs, Event: 2, Row: 1}
		s := open(t, srv.config(db), elsewhere)
		if got := s.Offset(); got != elsewhere {
			t.Errorf("before the first event the offset is %+v, want what was stored", got)
		}
		facts, _ := follow(t, s, "DROP TABLE `a` /* generated by server */")
		if len(facts) != 3 {
			t.Errorf("%v, want both rows", facts)
		}
	})
}
