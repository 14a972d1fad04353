package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

// MySQL is the source for MySQL servers, which answers to Debezium's class too. It runs one task.
func MySQL() connect.Connector {
	return connector(binlog.MySQL, "Captures the changes of a MySQL server: a consistent snapshot, then the binlog.",
		"io.debezium.connector.mysql.MySqlConnector", "MySqlConnector")
}

// MariaDB is the source for MariaDB servers.
func MariaDB() connect.Connector {
	return connector(binlog.MariaDB, "Captures the changes of a MariaDB server: a consistent snapshot, then the binlog.",
		"io.debezium.connector.mariadb.MariaDbConnector", "MariaDbConnector")
}

func connector(d binlog.Dialect, doc string, aliases ...string) connect.Connector {
	return connect.Connector{
		Name:    d.String(),
		Aliases: aliases,
		Version: "1.0.0",
		Doc:     doc,
		Fields:  fields(d),
		Validate: func(_ context.Context, c connect.Config) []connect.FieldResult {
			return validate(d, c)
		},
		Check: func(ctx context.Context, in connect.Instance) ([]connect.Finding, error) {
			return check(ctx, d, in)
		},
		AlterOffsets: alterOffsets,
		Source: func(ctx context.Context, in connect.Task) (connect.SourceTask, error) {
			t, err := openTask(ctx, d, in)
			if err != nil {
				return nil, err
			}
			return t, nil
		},
	}
}

// check looks at the live system with the connector's rights.
func check(ctx context.Context, d binlog.Dialect, in connect.Instance) ([]connect.Finding, error) {
	s, err := parseSettings(d, in.Config, in.Kafka)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.inspect(ctx, conn)
	if err := errors.Join(err, conn.Close()); err != nil {
		return nil, s.explain(err)
	}
	return found.findings, nil
}

// alterOffsets refuses offsets that the task could not start from.
func alterOffsets(_ context.Context, in connect.Instance, offsets []connect.SourceOffset) error {
	want := debezium.Partition(in.Config["topic.prefix"])
	for _, o := range offsets {
		if !o.Partition.Equal(want) {
			return fmt.Errorf("the partition of this connector is %s, not %s", want, o.Partition)
		}
		if o.Offset == nil {
			continue
		}
		if _, err := readStored(o.Offset); err != nil {
			return err
		}
	}
	return nil
}
