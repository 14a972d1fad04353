package postgres

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
)

// runner drives a task of this package.
type runner struct {
	debeziumtest.Runner
	task *task // Runner.Task as what it is
}

func (d *db) config(more ...string) connect.Config {
	c := connect.Config{
		"topic.prefix": "srv", "database.hostname": "127.0.0.1", "database.port": strconv.Itoa(server.port), "database.user": "postgres",
		"database.password": serverPassword, "database.dbname": d.name, "slot.name": "slot_" + strconv.Itoa(int(server.databases.Load())),
		"database.sslmode": "disable",
	}
	for i := 0; i+1 < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

func newRunner(t testing.TB, config connect.Config) *runner {
	return &runner{Runner: debeziumtest.Runner{T: t, Name: "pg", Config: config, Partition: debezium.Partition("srv")}}
}

// open opens the task, waiting while the slot is still in use by the session of a killed one.
func (r *runner) open() *runner {
	r.T.Helper()
	ctx := context.Background()
	for start := time.Now(); ; {
		opened, err := openTask(ctx, r.Instance())
		if err == nil {
			r.task, r.Task = opened, opened
			return r
		}
		if connect.KindOf(ctx, err) != connect.KindRetry || time.Since(start) > 20*time.Second {
			r.T.Fatalf("open: %v", err)
		}
	}
}

// kill ends the task as the death of its process would: connections go, nothing is said.
func (r *runner) kill() {
	t := r.task
	t.end()
	if t.stream != nil {
		_ = t.stream.wire.conn.Close()
		<-t.stream.status.done
	}
	if t.run != nil {
		_ = t.run.wire.conn.Close()
	}
	if t.making != nil {
		_ = t.making.wire.conn.Close()
	}
	if t.sql != nil {
		_ = t.sql.Conn().Close()
	}
	r.task, r.Task = nil, nil
}
