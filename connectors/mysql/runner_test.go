package mysql

import (
	"context"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/debezium/debeziumtest"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// runner drives a task of this package.
type runner struct {
	debeziumtest.Runner
	dialect binlog.Dialect
	task    *task // Runner.Task as what it is
}

func newRunner(d *db, config connect.Config) *runner {
	return &runner{Runner: debeziumtest.Runner{T: d.t, Name: "my", Config: config, Partition: debezium.Partition("srv")}, dialect: d.server.dialect}
}

// open opens the task.
func (r *runner) open() *runner {
	r.T.Helper()
	opened, err := openTask(context.Background(), r.dialect, r.Instance())
	if err != nil {
		r.T.Fatalf("open: %v", err)
	}
	r.task, r.Task = opened, opened
	return r
}

// kill ends the task as the death of its process would: connections go, nothing is said.
func (r *runner) kill() {
	r.T.Helper()
	r.Close() // the server is told nothing at a close either
	r.task, r.Task = nil, nil
}
