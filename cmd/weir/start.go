package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect/console"
	"github.com/weirlog/weir/connect/rest"
	"github.com/weirlog/weir/connect/worker"
	"github.com/weirlog/weir/connectors"
	"github.com/weirlog/weir/core"
)

func newStart() *cobra.Command {
	f := &startFlags{}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run a node: the log, the connectors and their addresses, in one process",
		Long: `Run a node: the log (Kafka protocol), the connectors (Kafka Connect's REST) and the console, in one process.

Without a configuration all of it listens on 127.0.0.1 and keeps its data in ./weir-data.
What was acknowledged is on disk: kill -9 and power loss lose nothing of it.

Several nodes are a cluster: start three with the same --join, which names all three, and the same cluster.secret. They form it
when all are there; a node that comes later joins it. On later starts they know who they are, wherever they are.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			cfg, err := f.load()
			if err != nil {
				return err
			}
			n, err := openNode(cmd.Context(), cfg)
			if err != nil {
				return ended(cmd.Context(), err)
			}
			return n.run(cmd.Context(), func() {
				fmt.Fprintf(cmd.OutOrStdout(), "weir %s is ready after %s\n  Kafka    %s\n  Connect  http://%s\n  console  http://%s\n  data     %s\n",
					version, time.Since(began).Round(time.Millisecond), cfg.kafkaAddr, cfg.connectAddr, cfg.consoleAddr, cfg.dir)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "weir.yaml")
	flags.StringVar(&f.data, "data", "", "data folder (default ./weir-data)")
	flags.StringVar(&f.kafka, "kafka", "", "where to speak Kafka, HOST:PORT (default 127.0.0.1:9092)")
	flags.StringVar(&f.connect, "connect", "", "where to serve Connect's REST, HOST:PORT (default 127.0.0.1:8083)")
	flags.StringVar(&f.console, "console", "", "where to serve the console and /metrics, HOST:PORT (default 127.0.0.1:8080)")
	flags.StringVar(&f.join, "join", "", "nodes to form a cluster with or to join, HOST:PORT,…: advertised addresses, the same list on every node that forms it")
	flags.IntVar(&f.portBase, "port-base", 0, "use ports N (Kafka), N+1 (Connect) and N+3 (console) of 127.0.0.1")
	flags.BoolVar(&f.insecure, "insecure", false, "allow addresses that others can reach, without authentication")
	flags.StringArrayVar(&f.set, "set", nil, "section.key=value over the file, as broker.num.partitions=3; may be repeated")
	return cmd
}

// node is a whole node: the one place where the two towers are wired together. The node of weir connect has no broker:
// its worker is on a cluster elsewhere.
type node struct {
	cfg     *nodeConfig
	log     *slog.Logger
	started time.Time
	broker  *core.Broker // nil: none
	worker  *worker.Worker
	kafka   net.Listener // nil: none
	rest    server
	console server
}

// server is an HTTP server with its listener.
type server struct {
	*http.Server
	ln net.Listener
}

// openNode opens the data folder and every listener. Nothing runs when it returns. A new node of a cluster waits for the others first, until ctx
// ends.
func openNode(ctx context.Context, cfg *nodeConfig) (*node, error) {
	n := &node{cfg: cfg, log: newLogger(cfg), started: time.Now()}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.memoryBytes)
	}
	if err := n.listen(); err != nil {
		return nil, errors.Join(err, n.closeListeners())
	}
	for _, open := range []func(context.Context) error{n.form, n.openBroker, n.openWorker} {
		if err := open(ctx); err != nil {
			return nil, errors.Join(err, n.closeListeners(), n.closeBroker())
		}
	}
	return n, nil
}

func (n *node) listen() (err error) {
	if n.cfg.broker != nil {
		if n.kafka, err = net.Listen("tcp", n.cfg.kafkaAddr); err != nil {
			return fmt.Errorf("listen for Kafka clients (--kafka or --port-base chooses another address): %w", err)
		}
	}
	if n.rest.ln, err = net.Listen("tcp", n.cfg.connectAddr); err != nil {
		return fmt.Errorf("listen for Connect's REST (--connect chooses another address): %w", err)
	}
	if n.console.ln, err = net.Listen("tcp", n.cfg.consoleAddr); err != nil {
		return fmt.Errorf("listen for the console (--console chooses another address): %w", err)
	}
	return nil
}

func (n *node) closeListeners() error {
	var faults []error
	for _, ln := range []net.Listener{n.kafka, n.rest.ln, n.console.ln} {
		if ln != nil {
			faults = append(faults, ln.Close())
		}
	}
	return errors.Join(faults...)
}

// form makes a new data folder that of a node of a cluster, if there is to be one. Meanwhile the web addresses say so.
func (n *node) form(ctx context.Context) error {
	if n.cfg.broker == nil {
		return nil
	}
	if err := os.MkdirAll(n.cfg.dir, 0o750); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	n.cfg.broker.Logger = n.log
	if n.cfg.broker.Advertise == "" {
		n.cfg.broker.Advertise = n.cfg.kafkaAddr
	}
	if len(n.cfg.broker.Join) == 0 {
		return nil
	}
	waiting := beginWaiting(n.rest.ln, n.console.ln)
	return errors.Join(core.Form(ctx, *n.cfg.broker, n.kafka), waiting.end())
}

// openBroker opens the data folder and the log in it, if the node has one.
func (n *node) openBroker(context.Context) (err error) {
	if n.cfg.broker == nil {
		return nil
	}
	n.broker, err = core.Open(*n.cfg.broker)
	return err
}

func (n *node) closeBroker() error {
	if n.broker == nil {
		return nil
	}
	return n.broker.Close()
}

// openWorker makes the worker and the two web addresses. It reaches a broker of its own node through a pipe in this
// process. Its identity is exclusive, as it must be: the data folder is locked by its broker, an address is bound once.
func (n *node) openWorker(context.Context) error {
	deps := worker.Deps{Connectors: connectors.All(), Log: n.log, LogLevel: n.cfg.level, Version: version}
	if n.broker != nil {
		n.cfg.connect["bootstrap.servers"] = n.broker.Advertised()
		deps.KafkaOpts = []kgo.Opt{kgo.Dialer(n.broker.Dial)}
		deps.Identity = fmt.Sprintf("node-%d-%s", n.broker.ID(), n.broker.ClusterID())
	} else {
		deps.Identity = processIdentity(n.rest.ln.Addr())
	}
	if n.cfg.connect["connect.scratch.dir"] == "" {
		dir, err := scratchFolder(deps.Identity)
		if err != nil {
			return fmt.Errorf("make scratch folder: %w", err)
		}
		n.cfg.connect["connect.scratch.dir"] = dir
	}
	parse := worker.ParseConfig
	if n.cfg.standalone {
		parse = worker.ParseStandaloneConfig
	}
	cfg, warnings, err := parse(n.cfg.connect)
	if err != nil {
		return err
	}
	if err := n.tellKeys(warnings, cfg.Notes); err != nil {
		return err
	}
	if cfg.ScratchDir != "" {
		if err := os.MkdirAll(cfg.ScratchDir, 0o750); err != nil {
			return fmt.Errorf("make scratch folder: %w", err)
		}
	}
	if n.worker, err = worker.Open(cfg, deps); err != nil {
		return fmt.Errorf("open worker: %w", err)
	}
	page, err := console.New(console.Config{
		Snapshot: n.snapshot, Ready: n.ready, Alive: n.alive,
		Metrics: promhttp.HandlerFor(newMetrics(n.broker, n.worker), promhttp.HandlerOpts{}),
	})
	if err != nil {
		return err
	}
	if n.cfg.pprof {
		page = withProfiles(page)
	}
	n.console.Server = webServer(page)
	n.rest.Server = webServer(rest.New(n.worker, rest.Config{}, n.log))
	return nil
}

// tellKeys says what is to be said of the worker's keys: those that nothing knows are faults of weir.yaml, and warnings
// of a Java worker's file, which is taken as it is.
func (n *node) tellKeys(unknown, notes []string) error {
	for _, note := range notes {
		n.log.Info("configuration", "about", note)
	}
	var faults []error
	for _, w := range unknown {
		if n.cfg.javaFile {
			n.log.Warn("configuration", "about", w)
		} else {
			faults = append(faults, fmt.Errorf("connect.%s", w))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

func webServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
}

func withProfiles(page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	return mux
}

func newLogger(cfg *nodeConfig) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.level}
	if cfg.json {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

// webDrain is how long running HTTP requests may take once the node ends.
const webDrain = 2 * time.Second

// run serves until ctx ends or a part fails, then ends the parts in this order: the worker drains (sources stop polling,
// producers flush, offsets are made durable, sinks flush and commit, the group is left); then the web addresses close,
// not before, since another process that binds them may take this worker for dead; the broker hands over what it leads to other
// nodes, and syncs and closes its folder last. A second signal kills the process, and so may anything at any point: what was acknowledged is on disk.
func (n *node) run(ctx context.Context, ready func()) error {
	brokerCtx, stopBroker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBroker()
	workerCtx, stopWorker := context.WithCancel(ctx)
	defer stopWorker()

	brokerDone, workerDone, webDone := make(chan error, 1), make(chan error, 1), make(chan error, 3)
	serving := 2
	if n.broker != nil {
		serving++
		go func() { brokerDone <- n.broker.Run(brokerCtx) }()
		go func() { webDone <- n.broker.Serve(n.kafka) }()
	}
	go func() { workerDone <- n.worker.Run(workerCtx) }()
	go func() { webDone <- n.rest.Serve(n.rest.ln) }()
	go func() { webDone <- n.console.Serve(n.console.ln) }()
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		n.announce(workerCtx, ready)
	}()

	var fault error
	brokerGone, workerGone := n.broker == nil, false
	select {
	case <-ctx.Done():
		n.log.Info("ending: a second signal ends at once")
	case fault = <-brokerDone:
		brokerGone = true
	case fault = <-workerDone:
		workerGone = true
	case fault = <-webDone:
		serving--
	}
	stopWorker()
	<-announced
	if !workerGone {
		fault = errors.Join(fault, <-workerDone)
	}
	webCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webDrain)
	defer cancel()
	_, _ = n.rest.Shutdown(webCtx), n.console.Shutdown(webCtx) // what is still running after webDrain is cut off
	if !brokerGone {
		n.broker.Leave(brokerCtx)
	}
	if n.kafka != nil {
		if err := n.kafka.Close(); !errors.Is(err, net.ErrClosed) { // by a broker that ended
			fault = errors.Join(fault, err)
		}
	}
	stopBroker()
	if !brokerGone {
		fault = errors.Join(fault, <-brokerDone)
	}
	fault = errors.Join(fault, n.closeBroker())
	for ; serving > 0; serving-- {
		if err := <-webDone; !errors.Is(err, http.ErrServerClosed) {
			fault = errors.Join(fault, err)
		}
	}
	return ended(ctx, fault)
}

// ended drops the errors that ending on purpose brings about.
func ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, ended(ctx, e))
		}
		return errors.Join(rest...)
	}
	for _, fine := range []error{context.Canceled, net.ErrClosed, http.ErrServerClosed} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}

// announce calls ready once the node serves.
func (n *node) announce(ctx context.Context, ready func()) {
	for tick := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; {
		if n.ready() == nil {
			tick.Stop()
			ready()
			return
		}
		select {
		case <-ctx.Done():
			tick.Stop()
		case <-tick.C:
		}
	}
}

// alive tells whether the process does its work.
func (n *node) alive() error {
	if n.broker == nil {
		return nil
	}
	return n.broker.Store().Err()
}

// ready tells whether clients and connectors are served, or why not. A node of several is ready without its worker: that may have to wait for other
// nodes, which somebody may let start only when this one is ready.
func (n *node) ready() error {
	if err := n.alive(); err != nil {
		return err
	}
	if n.broker != nil {
		if err := n.broker.Ready(); err != nil || n.cfg.broker.ClusterSecret != "" {
			return err
		}
	}
	if h := n.worker.Health(); h.Status != "healthy" {
		return fmt.Errorf("worker: %s", h.Message)
	}
	return nil
}
