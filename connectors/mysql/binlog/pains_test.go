package binlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestXA(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		srv.exec(t, "USE "+db, "XA START 'x1'", "INSERT INTO a VALUES (1)", "XA END 'x1'", "XA PREPARE 'x1'")
		srv.exec(t, "INSERT INTO "+db+".a VALUES (2)", "XA COMMIT 'x1'")
		srv.exec(t, "USE "+db, "XA START 'x2'", "INSERT INTO a VALUES (3)", "XA END 'x2'", "XA PREPARE 'x2'")
		srv.exec(t, "XA ROLLBACK 'x2'")
		srv.exec(t, "USE "+db, "XA START 'x3'", "INSERT INTO a VALUES (4)", "XA END 'x3'", "XA COMMIT 'x3' ONE PHASE")
		s := open(t, srv.config(db), start)
		got := story(t, s, 6)
		one := []string{"begin xa", "insert a", "commit"}
		if srv.dialect == MariaDB {
			one[0] = "begin" // it logs a transaction of one phase as any other
		}
		expect(t, got, append([]string{"begin xa", "insert a", "prepared", "begin", "insert a", "commit",
			"xa commit XA COMMIT X'7831',X'',1", "begin xa", "insert a", "prepared", "xa rollback XA ROLLBACK X'7832',X'',1"}, one...)...)
		if o, want := s.Offset(), srv.here(t); o.GTIDs != want.GTIDs || o.Pos != want.Pos {
			t.Errorf("offset %+v at the end, the server is at %+v", o, want)
		}
	})
}

// TestCompressedTransactions: small and large ones, unpacked in memory or while they come.
func TestCompressedTransactions(t *testing.T) {
	srv := sharedServer(t, MySQL)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)", "CREATE TABLE "+db+".b (v LONGBLOB NOT NULL)")
	start := srv.here(t)
	compressed := []string{"USE " + db, "SET SESSION binlog_transaction_compression=ON", "SET SESSION binlog_transaction_compression_level_zstd=1"}
	srv.exec(t, append(compressed, numbers(0, 300), "BEGIN", numbers(300, 10), "UPDATE a SET id=id+1 WHERE id=5", "COMMIT")...)
	noise := "INSERT INTO b SELECT RANDOM_BYTES(1024)"
	large := append(compressed, "BEGIN", noise)
	for range 12 { // each doubles it: 4 MiB of noise, which stays larger than what is read piece by piece
		large = append(large, "INSERT INTO b SELECT CONCAT(RANDOM_BYTES(1000), REPEAT('x',100)) FROM b")
	}
	srv.exec(t, append(large, "COMMIT", numbers(400, 1))...)
	s := open(t, srv.config(db), start)
	begin := next(t, s).(*Begin)
	place := Position{begin.File, begin.Start}
	next(t, s)
	if o := s.OffsetInRows(7); (Position{o.File, o.Pos}) != place || o.Event != 2 || o.Row != 7 || o.GTIDs != start.GTIDs {
		t.Errorf("offset in a compressed transaction: %+v", o)
	}
	next(t, s)
	expect(t, story(t, s, 1), "begin", "insert a", "update a", "commit")
	streamed, bytes := false, 0
	for done := false; !done; {
		switch e := next(t, s).(type) {
		case *Rows:
			streamed = streamed || s.outer.streamed
			bytes += len(e.Data)
		case *Commit:
			done = true
		}
	}
	if !streamed || bytes < 4<<20 {
		t.Errorf("the large transaction had %d bytes of rows, read piece by piece: %v", bytes, streamed)
	}
	expect(t, story(t, s, 1), "begin", "insert a", "commit")
	if o, want := s.Offset(), srv.here(t); o.GTIDs != want.GTIDs || o.Pos != want.Pos {
		t.Errorf("offset %+v at the end, the server is at %+v", o, want)
	}
}

// TestCompressedAndAnnotatedEvents: MariaDB's log_bin_compress, and the statements beside the rows.
func TestCompressedAndAnnotatedEvents(t *testing.T) {
	srv := sharedServer(t, MariaDB)
	db := srv.database(t)
	srv.set(t, "log_bin_compress", "1")
	srv.set(t, "log_bin_compress_min_len", "10")
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	start := srv.here(t)
	long := "CREATE TABLE b (" + strings.Repeat("c", 60) + " INT COMMENT '" + strings.Repeat("long ", 100) + "')"
	srv.exec(t, "USE "+db, "SET SESSION gtid_domain_id=7", numbers(0, 500), "UPDATE a SET id=id+1", "DELETE FROM a", long)
	cfg := srv.config(db)
	s := open(t, cfg, start)
	seen := 0
	for _, want := range []int{5 * 500, 10 * 500, 5 * 500} {
		next(t, s)
		size := 0
		for {
			r, ok := next(t, s).(*Rows)
			if !ok {
				break
			}
			size += len(r.Data)
		}
		if size != want {
			t.Errorf("%d bytes of rows, want %d", size, want)
		}
		seen++
	}
	expect(t, story(t, s, 1), "statement "+long)
	cfg.Annotate = true
	cfg.ServerID++
	s = open(t, cfg, start)
	next(t, s)
	if r := next(t, s).(*Rows); r.Query != numbers(0, 500) {
		t.Errorf("the rows' statement is %.40q", r.Query)
	}
}

func TestStatementsBesideRows(t *testing.T) {
	srv := sharedServer(t, MySQL)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	start := srv.here(t)
	srv.exec(t, "USE "+db, "SET SESSION binlog_rows_query_log_events=ON", "BEGIN", "INSERT INTO a VALUES (1)", "DELETE FROM a", "COMMIT")
	cfg := srv.config(db)
	cfg.Annotate = true
	expect(t, story(t, open(t, cfg, start), 1), "begin", "insert a by INSERT INTO a VALUES (1)", "delete a by DELETE FROM a", "commit")
}

// TestStatementFormat: rows that changed by a statement's text are told, with the way out.
func TestStatementFormat(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		srv.exec(t, "USE "+db, "SET SESSION binlog_format=STATEMENT", "INSERT INTO a VALUES (1)")
		s := open(t, srv.config(db), start)
		next(t, s)
		q := next(t, s).(*Query)
		if q.Kind != Change || !q.InTransaction {
			t.Fatalf("%+v, want a change inside a transaction", q)
		}
		err := q.Unreadable()
		class(t, err, StatementFormat)
		for _, word := range []string{"INSERT INTO a VALUES (1)", "binlog_format = ROW", q.File} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q doesn't say %q", err, word)
			}
		}
	})
}

func TestTaggedGTIDs(t *testing.T) {
	srv := sharedServer(t, MySQL)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	start := srv.here(t)
	srv.exec(t, "USE "+db, "SET gtid_next='AUTOMATIC:blue'", "INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (2)", "SET gtid_next='AUTOMATIC'", "INSERT INTO a VALUES (3)")
	s := open(t, srv.config(db), start)
	if b := next(t, s).(*Begin); !strings.HasSuffix(b.GTID, ":blue:1") || b.OriginalMicros == 0 || time.Since(time.UnixMicro(int64(b.OriginalMicros))) > time.Hour {
		t.Errorf("%+v", b)
	}
	next(t, s)
	next(t, s)
	middle := s.Offset()
	story(t, s, 2)
	if o, want := s.Offset(), srv.here(t); o.GTIDs != want.GTIDs || !strings.Contains(o.GTIDs, ":blue:1-2") {
		t.Errorf("set %s, the server has %s", o.GTIDs, want.GTIDs)
	}
	cfg := srv.config(db)
	cfg.ServerID++
	s = open(t, cfg, middle)
	if b := next(t, s).(*Begin); !strings.HasSuffix(b.GTID, ":blue:2") {
		t.Errorf("went on with %s", b.GTID)
	}
}

// TestPurged: what would come next is deleted. The error names it, and the way out.
func TestPurged(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		srv.exec(t, "INSERT INTO "+db+".a VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO "+db+".a VALUES (2)", "FLUSH BINARY LOGS")
		middle := srv.here(t)
		for deadline := time.Now().Add(20 * time.Second); srv.ask(t, "SHOW BINARY LOGS") != middle.File; {
			if time.Now().After(deadline) { // MariaDB keeps a file until its engines have no need of it
				t.Fatal("the server doesn't delete its files")
			}
			srv.exec(t, fmt.Sprintf("PURGE BINARY LOGS TO '%s'", middle.File))
		}
		byPlace := start
		byPlace.GTIDs = ""
		for _, from := range []Offset{start, byPlace} {
			_, err := Open(t.Context(), srv.config(db), from)
			class(t, err, Purged)
			words := []string{"snapshot.mode=when_needed", from.GTIDs}
			if from.GTIDs == "" {
				words = append(words, from.File)
			} else if srv.dialect == MySQL {
				gone := parse(t, MySQL, middle.GTIDs).Subtract(parse(t, MySQL, start.GTIDs)).String()
				words = []string{"snapshot.mode=when_needed", gone}
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q doesn't say %q", err, word)
				}
			}
		}
		srv.exec(t, "INSERT INTO "+db+".a VALUES (3)")
		expect(t, story(t, open(t, srv.config(db), middle), 1), "begin", "insert a", "commit")
	})
}

// TestGapIsPurged: one transaction in the middle of the set wasn't read, and the server has deleted it.
func TestGapIsPurged(t *testing.T) {
	srv := sharedServer(t, MySQL)
	db := srv.database(t)
	srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
	before := parse(t, MySQL, srv.here(t).GTIDs)
	srv.exec(t, "INSERT INTO "+db+".a VALUES (1)")
	gap := parse(t, MySQL, srv.here(t).GTIDs).Subtract(before)
	srv.exec(t, "INSERT INTO "+db+".a VALUES (2)", "FLUSH BINARY LOGS")
	now := srv.here(t)
	srv.exec(t, "PURGE BINARY LOGS TO '"+now.File+"'")
	_, err := Open(t.Context(), srv.config(db), Offset{GTIDs: parse(t, MySQL, now.GTIDs).Subtract(gap).String()})
	class(t, err, Purged)
	var own *Error
	if !errors.As(err, &own) || !own.Missing.Equal(gap) || !strings.Contains(err.Error(), gap.String()) {
		t.Errorf("%v, want it to name %s", err, gap)
	}
}

// TestPlaceThatNeverWas: an offset of a server whose binlog was reset, or of another server.
func TestPlaceThatNeverWas(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		here := srv.here(t)
		_, err := Open(t.Context(), srv.config(""), Offset{File: here.File, Pos: here.Pos + 100_000})
		class(t, err, Diverged)
		_, err = Open(t.Context(), srv.config(""), Offset{File: "mysql-bin.000100", Pos: 4})
		class(t, err, Purged)
	})
	srv := sharedServer(t, MariaDB)
	_, err := Open(t.Context(), srv.config(""), Offset{GTIDs: "0-1-4000000000"})
	class(t, err, Diverged)
}

// TestDuplicateServerID: a second replica with the same id throws the first out, which says so.
func TestDuplicateServerID(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		cfg := srv.config("none")
		first := open(t, cfg, srv.here(t))
		open(t, cfg, srv.here(t))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var err error
		for err == nil {
			_, err = first.Next(ctx)
		}
		class(t, err, DuplicateServerID)
		if !strings.Contains(err.Error(), "database.server.id") {
			t.Errorf("%q names no way out", err)
		}
	})
}

// TestFilesRotate: by command, and by size inside a flow of transactions.
func TestFilesRotate(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.set(t, "max_binlog_size", "4096")
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
		start := srv.here(t)
		statements := []string{"USE " + db}
		for i := range 60 {
			statements = append(statements, numbers(i*100, 100))
		}
		srv.exec(t, append(statements, "DROP TABLE a")...)
		byPlace := start
		byPlace.GTIDs = ""
		for _, from := range []Offset{start, byPlace} {
			cfg := srv.config(db)
			s := open(t, cfg, from)
			rotations, rows := 0, 0
			for done := false; !done; {
				switch e := next(t, s).(type) {
				case *Rotate:
					rotations++
					if o := s.Offset(); o.File != e.Next.File || o.Pos != 4 {
						t.Errorf("behind a rotation to %s the offset is %+v", e.Next, o)
					}
					cfg.ServerID++
					s = open(t, cfg, s.Offset())
				case *Rows:
					rows += len(wholeNumbers(e))
				case *Query:
					done = true
				}
			}
			if rotations < 5 || rows != 6000 {
				t.Errorf("%d rotations, %d rows of 6000", rotations, rows)
			}
		}
	})
}

// TestServerRestarts: stopped and killed, the stream ends as lost and goes on from its offset.
func TestServerRestarts(t *testing.T) {
	for _, d := range []Dialect{MySQL, MariaDB} {
		t.Run(d.String(), func(t *testing.T) {
			srv := ownServer(t, d)
			db := srv.database(t)
			srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)")
			from := srv.here(t)
			for i, end := range []func(){srv.stop, func() { srv.kill(t) }} {
				s := open(t, srv.config(db), from)
				srv.exec(t, fmt.Sprintf("INSERT INTO %s.a VALUES (%d)", db, i))
				if got := fmt.Sprint(wholeNumbersOf(t, s)); !strings.HasSuffix(got, fmt.Sprintf("0%d000000]", i)) {
					t.Errorf("%s came, want the row that is new", got)
				}
				next(t, s)
				end()
				var err error
				for err == nil {
					_, err = s.Next(t.Context())
				}
				class(t, err, Lost)
				from = s.Offset()
				_, err = Open(t.Context(), srv.config(db), from)
				if Classify(err) != Lost {
					t.Errorf("a server that is down: %v is %s", err, Classify(err))
				}
				if err := srv.start(); err != nil {
					t.Fatal(err)
				}
			}
			srv.exec(t, "INSERT INTO "+db+".a VALUES (9)")
			s := open(t, srv.config(db), from)
			if got := wholeNumbersOf(t, s); !strings.HasSuffix(got, "09000000]") {
				t.Errorf("after the restarts came %s, want only the new row", got)
			}
		})
	}
}

// TestFailoverToAReplica: the stream goes on at a replica by GTID, though its files and numbers are others.
func TestFailoverToAReplica(t *testing.T) {
	for _, d := range []Dialect{MySQL, MariaDB} {
		t.Run(d.String(), func(t *testing.T) {
			options := []string{"--server-id=2", "--log-bin=other-name"}
			if d == MariaDB {
				options = append(options, "--log-slave-updates=ON")
			}
			srv, replica := ownServer(t, d), ownServer(t, d, options...)
			srv.exec(t, "CREATE DATABASE f", "CREATE TABLE f.a (id INT NOT NULL)")
			if d == MySQL {
				replica.exec(t, "RESET BINARY LOGS AND GTIDS", fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='weir', "+
					"SOURCE_PASSWORD='weir', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", srv.port), "START REPLICA")
			} else {
				replica.exec(t, "RESET MASTER", fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='weir', "+
					"MASTER_PASSWORD='weir', MASTER_USE_GTID=slave_pos", srv.port), "START SLAVE")
			}
			start := srv.here(t)
			srv.exec(t, "USE f", numbers(0, 3), numbers(3, 2))
			s := open(t, srv.config("f"), start)
			seen := 0
			for range 2 {
				next(t, s)
			}
			partly := s.OffsetInRows(2) // inside the first transaction
			done := srv.here(t)
			srv.exec(t, "DROP TABLE f.a", "CREATE TABLE f.a (id INT NOT NULL)")
			wait := fmt.Sprintf("SELECT WAIT_FOR_EXECUTED_GTID_SET('%s', 30)", srv.here(t).GTIDs)
			if d == MariaDB {
				wait = fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', 30)", srv.here(t).GTIDs)
			}
			if got := replica.ask(t, wait); got != "0" {
				t.Fatalf("the replica didn't follow: %s", got)
			}
			srv.stop()
			if d == MySQL {
				replica.exec(t, "STOP REPLICA", "RESET REPLICA ALL")
			} else {
				replica.exec(t, "STOP SLAVE", "RESET SLAVE ALL")
			}
			replica.exec(t, "USE f", numbers(9, 1))
			s = open(t, replica.config("f"), partly)
			for commits := 0; commits < 2; {
				switch e := next(t, s).(type) {
				case *Rows:
					seen += len(wholeNumbers(e)) - e.Skip
				case *Commit:
					commits++
				}
			}
			if seen != 5 {
				t.Errorf("%d rows, want both transactions whole: the counts were another server's", seen)
			}
			cfg := replica.config("f")
			cfg.ServerID++
			drop := "statement DROP TABLE `f`.`a` /* generated by server */"
			if d == MariaDB {
				drop = "statement DROP TABLE IF EXISTS `f`.`a` /* generated by server */"
			}
			s = open(t, cfg, done)
			expect(t, story(t, s, 3), drop, "statement CREATE TABLE f.a (id INT NOT NULL)", "begin", "insert a", "commit")
			if o, want := s.Offset(), replica.here(t); o.GTIDs != want.GTIDs || o.File != want.File || o.Pos != want.Pos {
				t.Errorf("offset %+v at the end, the replica is at %+v", o, want)
			}
		})
	}
}

// TestNonTransactionalRollback: rows of a table without transactions stay when the transaction is rolled back.
func TestNonTransactionalRollback(t *testing.T) {
	both(t, func(t *testing.T, srv *server) {
		db := srv.database(t)
		srv.exec(t, "CREATE TABLE "+db+".a (id INT NOT NULL)", "CREATE TABLE "+db+".m (id INT NOT NULL) ENGINE=MyISAM")
		start := srv.here(t)
		insert := []string{"BEGIN", "INSERT INTO a VALUES (1)", "INSERT INTO m VALUES (1)", "ROLLBACK"}
		if srv.dialect == MySQL { // with GTIDs it refuses both in one transaction
			insert = []string{"INSERT INTO m VALUES (1)"}
		}
		srv.exec(t, append(append([]string{"USE " + db}, insert...), "DROP TABLE m")...)
		got := story(t, open(t, srv.config(db), start), 2)
		expect(t, got, "begin", "insert m", "commit", "statement DROP TABLE `m` /* generated by server */")
	})
}
