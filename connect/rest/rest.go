package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
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
	PutTasks(ctx context.Context, name string, body []byte, header http.Header) error
	CatchUp(ctx context.Context) error
}

// Config bounds the API.
type Config struct {
	MaxBodyBytes int64         // of a request; 0: 4 MiB
	Timeout      time.Duration // of a request; 0: 90 s
}

// api holds what the handlers share.
type api struct {
	herder Herder
	cfg    Config
	log    *slog.Logger
	others *http.Client // asks other workers
}

// New makes the handler. It serves the API at the root path. A request that another worker serves is handed on to it.
func New(h Herder, cfg Config, log *slog.Logger) http.Handler {
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = 4 << 20
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 90 * time.Second
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &api{herder: h, cfg: cfg, log: log, others: otherWorkers()}
}

// reply is what an endpoint answers.
type reply struct {
	status   int
	body     any // nil: none
	location string
}

func ok(body any) (reply, error) { return reply{status: http.StatusOK, body: body}, nil }

func empty(status int, err error) (reply, error) { return reply{status: status}, err }

// endpoint answers a request; vars are the path's variable parts, unescaped.
type endpoint func(a *api, r *http.Request, vars []string) (reply, error)

// route is one path with its methods. A part "*" of the pattern stands for any one part.
type route struct {
	pattern string
	methods map[string]endpoint
}

// fault is an error with a status of the API's own.
type fault struct {
	status  int
	message string
}

func (f *fault) Error() string   { return f.message }
func (f *fault) HTTPStatus() int { return f.status }

func badRequest(message string) error { return &fault{http.StatusBadRequest, message} }

// ServeHTTP routes a request, answers it and bounds it in time and size.
func (a *api) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
	defer cancel()
	r = r.WithContext(ctx)
	out, err := a.serve(rw, r)
	if err != nil {
		out = a.failed(r, err)
	}
	if out.location != "" {
		rw.Header().Set("Location", out.location)
	}
	if out.body == nil {
		rw.WriteHeader(out.status)
		return
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out.body); err != nil {
		a.log.Error("an answer can't be encoded", "path", r.URL.Path, "error", err)
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(out.status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := rw.Write(bytes.TrimSuffix(body.Bytes(), []byte("\n"))); err != nil {
		a.log.Debug("an answer was not taken", "path", r.URL.Path, "error", err)
	}
}

// serve answers a request here, or has another worker answer it. The body is read whole, so that it can be handed on.
func (a *api) serve(rw http.ResponseWriter, r *http.Request) (reply, error) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, a.cfg.MaxBodyBytes))
	if err != nil {
		return reply{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	out, err := a.answer(rw, r)
	if elsewhere := (*worker.Elsewhere)(nil); errors.As(err, &elsewhere) {
		return a.handOn(r, body, elsewhere.URL)
	}
	return out, err
}

// answer finds the endpoint.
func (a *api) answer(rw http.ResponseWriter, r *http.Request) (reply, error) {
	parts, err := pathParts(r)
	if err != nil {
		return reply{}, badRequest("malformed path: " + err.Error())
	}
	for _, rt := range routes() {
		vars, match := rt.match(parts)
		if !match {
			continue
		}
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		handle, found := rt.methods[method]
		if !found {
			return notAllowed(rw, r, rt)
		}
		if (method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch) && r.ContentLength != 0 && !isJSON(r) {
			return reply{}, &fault{http.StatusUnsupportedMediaType, "HTTP 415 Unsupported Media Type"}
		}
		return handle(a, r, vars)
	}
	return reply{}, &fault{http.StatusNotFound, "HTTP 404 Not Found"}
}

func notAllowed(rw http.ResponseWriter, r *http.Request, rt route) (reply, error) {
	methods := []string{http.MethodOptions}
	for m := range rt.methods {
		methods = append(methods, m)
	}
	if rt.methods[http.MethodGet] != nil {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	rw.Header().Set("Allow", strings.Join(methods, ","))
	if r.Method == http.MethodOptions {
		return reply{status: http.StatusOK}, nil
	}
	return reply{}, &fault{http.StatusMethodNotAllowed, "HTTP 405 Method Not Allowed"}
}

// isJSON reports whether a body is JSON by its content type; a missing one is believed to be.
func isJSON(r *http.Request) bool {
	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(ct)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

func (rt route) match(parts []string) (vars []string, ok bool) {
	want := strings.Split(strings.Trim(rt.pattern, "/"), "/")
	if rt.pattern == "/" {
		want = nil
	}
	if len(parts) != len(want) {
		return nil, false
	}
	for i, w := range want {
		switch {
		case w == "*":
			vars = append(vars, parts[i])
		case w != parts[i]:
			return nil, false
		}
	}
	return vars, true
}

// failed makes the body of an error.
func (a *api) failed(r *http.Request, err error) reply {
	status := http.StatusInternalServerError
	var known interface{ HTTPStatus() int }
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		status = known.HTTPStatus()
	case errors.As(err, &tooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("Request timed out: " + err.Error())
		fallthrough
	default:
		a.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	return reply{status: status, body: map[string]any{"error_code": status, "message": err.Error()}}
}

// decode reads a JSON body into v; nothing but one value may be there.
func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return badRequest("the request has no body")
		}
		return badRequest("the body is not what is expected here: " + err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body has more than one JSON value")
	}
	return nil
}
