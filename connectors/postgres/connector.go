package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// Connector is the postgres source, which answers to Debezium's class too. It runs one task.
func Connector() connect.Connector {
	return connect.Connector{
		Name:    "postgres",
		Aliases: []string{"io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector"},
		Version: "1.0.0",
		Doc:     "Captures the changes of a PostgreSQL database: a consistent snapshot, then logical replication.",
		Fields:  fields(),
		Validate: func(_ context.Context, c connect.Config) []connect.FieldResult {
			return validate(c)
		},
		Check:        check,
		AlterOffsets: alterOffsets,
		Source: func(ctx context.Context, in connect.Task) (connect.SourceTask, error) {
			t, err := openTask(ctx, in)
			if err != nil {
				return nil, err
			}
			return t, nil
		},
	}
}

// check looks at the live system with the connector's rights.
func check(ctx context.Context, in connect.Instance) ([]connect.Finding, error) {
	s, err := parseSettings(in.Config)
	if err != nil {
		return nil, err
	}
	conn, err := s.open(ctx, "weir check", false)
	if err != nil {
		return nil, err
	}
	found, err := s.inspect(ctx, conn)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, s.explain(err)
	}
	return found.findings, nil
}

// alterOffsets refuses offsets that the task could not start from.
func alterOffsets(_ context.Context, in connect.Instance, offsets []connect.SourceOffset) error {
	prefix := in.Config["topic.prefix"]
	want := debezium.Partition(prefix)
	for _, o := range offsets {
		if !o.Partition.Equal(want) {
			return fmt.Errorf("the partition of this connector is %s, not %s", want, o.Partition)
		}
		if o.Offset == nil {
			continue
		}
		if _, err := readOffset(o.Offset); err != nil {
			return err
		}
	}
	return nil
}
