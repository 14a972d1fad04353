package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// What a run beside peers takes to be worth quoting.
const (
	wantSeconds = 20
	wantRounds  = 3
)

// bench is one run: what is measured, how much of it, and with what.
type bench struct {
	weir    string // the binary
	dir     string // folder for the data of every run
	store   string // folder of results, profiles and reports
	peers   string // folder of the peers' scripts
	records int    // of all synchronous producers together
	rows    int    // inserted for the change events of make bench
	seconds int    // of one run of one side
	rounds  int
	profile bool // keep weir's CPU profile of each scenario
	resume  bool // leave what is complete as it is
	out     io.Writer

	services map[string]service // at work now, by name
	versions []string           // of what is compared
	binary   string             // weir's hash
	lines    []string           // what the measurement at work has said
}

// say prints a line of a measurement and keeps it for the report.
func (b *bench) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintln(b.out, line)
	b.lines = append(b.lines, line)
}

func main() {
	b := bench{out: os.Stdout}
	flag.StringVar(&b.weir, "weir", "bin/weir", "the weir binary")
	flag.StringVar(&b.dir, "dir", os.TempDir(), "folder for data")
	flag.StringVar(&b.store, "store", ".run/bench", "folder for results and reports")
	flag.StringVar(&b.peers, "peers", "e2e/peers", "folder of the peers' scripts")
	flag.IntVar(&b.records, "records", 64_000, "records of the 64 producers together")
	flag.IntVar(&b.rows, "rows", 300_000, "rows for the change events of a measurement")
	flag.IntVar(&b.seconds, "seconds", wantSeconds, "length of one run of one side")
	flag.IntVar(&b.rounds, "rounds", wantRounds, "rounds; each runs every side once")
	flag.BoolVar(&b.profile, "profile", false, "keep weir's CPU profiles")
	flag.BoolVar(&b.resume, "resume", false, "leave scenarios that are complete as they are")
	page := flag.String("page", "", "write the report to this file too")
	fake := flag.String("serve-kfake", "", "be a kfake on this port (used by this program itself)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	if *fake != "" {
		err = serveKfake(ctx, *fake, b.dir)
	} else {
		err = b.run(ctx, flag.Args(), *page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run does what the first argument names with the scenarios that follow.
func (b *bench) run(ctx context.Context, args []string, page string) error {
	if len(args) == 0 {
		return errors.New("usage: bench [flags] limits|peers|report [SCENARIO…]")
	}
	if b.seconds < 2 || b.rounds < 1 {
		return fmt.Errorf("%d rounds of %d s: at least one of 2 s is needed", b.rounds, b.seconds)
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	order := append(limitNames(), namesOf(append(peerScenarios(), longScenarios()...))...)
	b.identify(ctx)
	var failed error // a scenario; the others are reported all the same
	switch args[0] {
	case setLimits:
		if err := b.runLimits(ctx, args[1:]); err != nil {
			return err
		}
	case setPeers:
		failed = b.runPeers(ctx, args[1:])
	case "report":
	default:
		return fmt.Errorf("unknown command %q: limits, peers or report", strings.Join(args, " "))
	}
	return errors.Join(b.report(order, page), failed)
}

// serveKfake is franz-go's broker with its data on disk, for as long as the context lasts.
func serveKfake(ctx context.Context, port, dir string) error {
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		return fmt.Errorf("port %q: %w", port, err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(number), kfake.DataDir(dir))
	if err != nil {
		return err
	}
	defer cluster.Close()
	<-ctx.Done()
	return nil
}
