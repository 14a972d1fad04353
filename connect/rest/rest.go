package rest

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirlog/weir/connect/worker"
)

// Herder is what the API needs: a *worker.Worker. The contracts are that type's. Errors that have a method
// HTTPStatus() int are answered with that status, others with 500.
type Herder interface {
	Server() worker.ServerInfo
	Health() worker.Health
	Connectors() []string
	Info(name string) (worker.Info, error)
	Status(name string) (worker.Status, error)
	TaskStatus(name string, task int) (worker.TaskState, error)
	Tasks(name string) ([]worker.TaskInfo, error)
	Topics(name string) ([]string, error)
	ResetTopics(ctx context.Context, name string) error
	Create(ctx context.Context, name string, config map[string]string, target worker.Target) (worker.Info, error)
	PutConfig(ctx context.Context, name string, config map[string]string) (worker.Info, bool, error)
	PatchConfig(ctx context.Context, name string, patch map[string]*string) (worker.Info, error)
	Delete(ctx context.Context, name string) error
	SetTarget(ctx context.Context, name string, target worker.Target) error
	Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (*worker.Status, error)
	RestartTask(ctx context.Context, name string, task int) error
	Offsets(ctx context.Context, name string) (worker.Offsets, error)
	AlterOffsets(ctx context.Context, name string, entries []worker.OffsetEntry) (string, error)
	Plugins(connectorsOnly bool) []worker.Plugin
	PluginConfig(class string) ([]worker.Definition, error)
	Validate(ctx context.Context, class string, config map[string]string) (worker.Validation, error)
	Loggers() map[string]worker.Logger
	SetLogLevel(logger, level string) ([]string, error)
}

// Config bounds the API.
type Config struct {
	MaxBodyBytes int64         // of a request; 0: 4 MiB
	Timeout      time.Duration // of a request; 0: 90 s
}

// New makes the handler. It serves the API at the root path.
func New(h Herder, cfg Config, log *slog.Logger) http.Handler { return http.NotFoundHandler() }
