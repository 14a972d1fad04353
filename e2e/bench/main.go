package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// bench is one run: what is measured, and how much of it.
type bench struct {
	weir     string // the binary
	dir      string // folder for the data of every measurement
	postgres string // host:port; empty leaves that figure out
	password string // of the user postgres
	records  int    // of all producers together
	rows     int    // inserted for the change events
}

func main() {
	var b bench
	flag.StringVar(&b.weir, "weir", "bin/weir", "the weir binary")
	flag.StringVar(&b.dir, "dir", os.TempDir(), "folder for data")
	flag.StringVar(&b.postgres, "pg", "", "host:port of a PostgreSQL with wal_level=logical, user postgres")
	flag.StringVar(&b.password, "password", "weir", "password of the user postgres")
	flag.IntVar(&b.records, "records", 64_000, "records of the 64 producers together")
	flag.IntVar(&b.rows, "rows", 300_000, "rows for the change events")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run does the named measurements, all of them where none is named.
func (b *bench) run(ctx context.Context, names []string) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	known := map[string]func(context.Context) error{"idle": b.idle, "produce": b.produce, "postgres": b.changes}
	if len(names) == 0 {
		names = []string{"idle", "produce", "postgres"}
	}
	for _, name := range names {
		measure, ok := known[name]
		if !ok {
			return fmt.Errorf("unknown measurement %q: want idle, produce or postgres", name)
		}
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
