package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

const (
	mysqlUser     = "weir" // and password
	mysqlDatabase = "bench"
)

// dialect is what tells MySQL from MariaDB here.
type dialect struct {
	service, title, class string
	client, binlog        string // its tools
	position              string // the statement that tells the binlog's file
}

func mysqlDialect() dialect {
	return dialect{serviceMySQL, "MySQL", "io.debezium.connector.mysql.MySqlConnector", "mysql", "mysqlbinlog", "show binary log status"}
}

func mariadbDialect() dialect {
	return dialect{serviceMariaDB, "MariaDB", "io.debezium.connector.mariadb.MariaDbConnector", "mariadb", "mariadb-binlog", "show master status"}
}

func (d dialect) scenario(sides []side, pairs []pair) scenario {
	sc := capture{
		name: d.service, title: d.title + " to a topic: snapshot, then stream, beside Debezium in Kafka Connect", service: d.service,
		settings: []string{"binlog_row_image=FULL, binlog_row_metadata=FULL, GTIDs on"},
		class:    d.class, open: d.open, limits: d.limits,
	}.scenario(sides, pairs)
	sc.absent = func(ctx context.Context, b *bench) (string, error) { return b.lacksPlugin(ctx, d.class) }
	return sc
}

// lacksPlugin asks weir's own worker for a connector class.
func (b *bench) lacksPlugin(ctx context.Context, class string) (string, error) {
	s, err := b.startWeir(ctx, allCores())
	if err != nil {
		return "", err
	}
	defer func() { _ = s.stop() }() // nothing was kept in it
	var plugins []struct{ Class string }
	if err := call(ctx, http.MethodGet, s.connect+"/connector-plugins", nil, &plugins); err != nil {
		return "", err
	}
	for _, p := range plugins {
		if p.Class == class {
			return "", nil
		}
	}
	status, text, err := callOnce(ctx, http.MethodPut, s.connect+"/connector-plugins/"+class+"/config/validate", map[string]string{"connector.class": class, "name": "probe"})
	if err != nil || status/100 == 2 {
		return "", err // an alias that is not listed
	}
	var answer struct{ Message string }
	_ = json.Unmarshal(text, &answer) // a body of another shape has no reason in it
	return fmt.Sprintf("not run: weir has no connector of class %s yet (status %d: %.120s)", class, status, answer.Message), nil
}

// sql runs statements by the server's own client.
func (b *bench) sql(ctx context.Context, name, statements string) (string, error) {
	s := b.services[name]
	return s.run(ctx, statements, "sql", s.dir)
}

func (d dialect) reset(ctx context.Context, b *bench) error {
	_, err := b.sql(ctx, d.service, fmt.Sprintf(`create database if not exists %[1]s; use %[1]s; drop table if exists %[2]s;
create table if not exists tick (n int);
create table if not exists numbers (n int primary key); insert ignore into numbers with recursive r as (select 0 as n union all select n+1 from r where n < 999) select n from r;
create table %[2]s (id bigint primary key, account int, amount decimal(12,2), at timestamp(6) null, day date, ok boolean, name varchar(100), note varchar(100), score double);`,
		mysqlDatabase, benchTable))
	return err
}

func (d dialect) insert(ctx context.Context, b *bench, first, end int) error {
	var statements strings.Builder
	fmt.Fprintf(&statements, "use %s;\n", mysqlDatabase)
	for from := first; from < end; from += rowsPerTxn {
		fmt.Fprintf(&statements, "insert into %s select i, i%%1000, i*1.25, now(6), current_date, i%%2=0, concat('name ', i), repeat('x', 40), i/3.0 from (select n+%d as i from numbers) as t where i < %d;\n",
			benchTable, from, end)
	}
	_, err := b.sql(ctx, d.service, statements.String())
	return err
}

func (d dialect) open(ctx context.Context, b *bench) (*database, error) {
	host, port, err := net.SplitHostPort(b.services[d.service].addr)
	if err != nil {
		return nil, err
	}
	return &database{
		config: map[string]string{
			"database.hostname": host, "database.port": port, "database.user": mysqlUser, "database.password": mysqlUser,
			"database.include.list": mysqlDatabase, "table.include.list": mysqlDatabase + "." + benchTable,
		},
		topic:  mysqlDatabase + "." + benchTable,
		reset:  func(ctx context.Context) error { return d.reset(ctx, b) },
		insert: func(ctx context.Context, first, end int) error { return d.insert(ctx, b, first, end) },
		settle: func(ctx context.Context, _ string) error { return d.settle(ctx, b) },
		forget: func(context.Context) {},
		settings: func(name, kafka string) map[string]string {
			return map[string]string{
				"database.server.id": fmt.Sprint(7000 + len(name)), "schema.history.internal.kafka.bootstrap.servers": kafka,
				"schema.history.internal.kafka.topic": "history." + name,
			}
		},
		committer: func(ctx context.Context) (func(context.Context, int) error, func(), error) {
			return d.committer(ctx, b)
		},
		hash: func(ctx context.Context) (string, error) {
			return shell(ctx, `echo "select concat_ws(' ', id, account, ok, name, note) from `+benchTable+` order by id" | "$1" sql "$2" `+mysqlDatabase+` | tail -n +2 | sha256sum`,
				b.services[d.service].script, b.services[d.service].dir)
		},
		close: func() {},
	}, nil
}

// settle waits until nobody reads the binlog. The server notices that a reader is gone when it writes to it: hence the tick.
func (d dialect) settle(ctx context.Context, b *bench) error {
	return until(ctx, "nobody reads the binlog", func() (bool, error) {
		n, err := b.sql(ctx, d.service, "insert into "+mysqlDatabase+".tick values (1); select count(*) as n from information_schema.processlist where command like 'Binlog Dump%'")
		return strings.HasSuffix(n, "\n0"), err
	})
}

// committer pipes statements into a client of its own, which runs each as it comes and ends at the first that fails.
func (d dialect) committer(ctx context.Context, b *bench) (commit func(context.Context, int) error, end func(), err error) {
	host, port, err := net.SplitHostPort(b.services[d.service].addr)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, b.services[d.service].script, "tool", d.client, "-h", host, "-P", port, "-u", mysqlUser, "-p"+mysqlUser, "--unbuffered", mysqlDatabase)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	commit = func(_ context.Context, id int) error {
		_, err := fmt.Fprintf(in, "insert into %s values (%d, %d, %d, now(6), current_date, %d, 'name %d', repeat('x', 40), %d);\n",
			benchTable, id, id%1000, id, (id+1)%2, id, id)
		return err
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait() // a statement that failed is an event that never comes
	}
	return commit, end, nil
}

// limits are the whole table to /dev/null by the client and the binlog to /dev/null by the server's own tool.
func (d dialect) limits(ctx context.Context, b *bench) ([]figure, error) {
	rows := rowsPerSecond * b.seconds
	if err := d.reset(ctx, b); err != nil {
		return nil, err
	}
	if _, err := b.sql(ctx, d.service, "flush binary logs"); err != nil {
		return nil, err
	}
	status, err := b.sql(ctx, d.service, d.position)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(status, "\n")
	file := strings.Fields(lines[len(lines)-1])[0]
	if err := d.insert(ctx, b, 0, rows); err != nil {
		return nil, err
	}
	s := b.services[d.service]
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := shell(ctx, `"$1" tool "$2" -h "$3" -P "$4" -u "$5" -p"$5" --quick "$6" -e "select * from `+benchTable+`" >/dev/null`,
		s.script, d.client, host, port, mysqlUser, mysqlDatabase); err != nil {
		return nil, err
	}
	read := time.Since(began)
	began = time.Now()
	out, err := exec.CommandContext(ctx, s.script, "tool", d.binlog, "--read-from-remote-server", "-h", host, "-P", port, "-u", mysqlUser, "-p"+mysqlUser,
		"--to-last-log", "--result-file=/dev/null", file).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", d.binlog, err, lastLines(string(out)))
	}
	dumped := time.Since(began)
	return []figure{
		higher("select", d.client+" --quick: the table to /dev/null", "rows/s", float64(rows)/read.Seconds()),
		higher("binlog", d.binlog+" --read-from-remote-server to /dev/null", "rows/s", float64(rows)/dumped.Seconds()),
	}, nil
}
