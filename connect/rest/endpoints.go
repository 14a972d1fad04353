package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect/worker"
)

// routes is the table of the API: Kafka Connect's public endpoints.
func routes() []route {
	type m = map[string]endpoint
	return []route{
		{"/", m{"GET": getServer}},
		{"/health", m{"GET": getHealth}},
		{"/connectors", m{"GET": listConnectors, "POST": createConnector}},
		{"/connectors/*", m{"GET": getConnector, "DELETE": deleteConnector}},
		{"/connectors/*/config", m{"GET": getConfig, "PUT": putConfig, "PATCH": patchConfig}},
		{"/connectors/*/status", m{"GET": getStatus}},
		{"/connectors/*/restart", m{"POST": restart}},
		{"/connectors/*/pause", m{"PUT": target(worker.TargetPaused, http.StatusAccepted)}},
		{"/connectors/*/resume", m{"PUT": target(worker.TargetStarted, http.StatusAccepted)}},
		{"/connectors/*/stop", m{"PUT": target(worker.TargetStopped, http.StatusNoContent)}},
		{"/connectors/*/tasks", m{"GET": getTasks, "POST": putTasks}},
		{"/connectors/*/tasks/*/status", m{"GET": getTaskStatus}},
		{"/connectors/*/tasks/*/restart", m{"POST": restartTask}},
		{"/connectors/*/topics", m{"GET": getTopics}},
		{"/connectors/*/topics/reset", m{"PUT": resetTopics}},
		{"/connectors/*/offsets", m{"GET": getOffsets, "PATCH": patchOffsets, "DELETE": deleteOffsets}},
		{"/connector-plugins", m{"GET": listPlugins}},
		{"/connector-plugins/*/config", m{"GET": getPluginConfig}},
		{"/connector-plugins/*/config/validate", m{"PUT": validate}},
		{"/admin/loggers", m{"GET": listLoggers}},
		{"/admin/loggers/*", m{"GET": getLogger, "PUT": putLogger}},
	}
}

// pathParts cuts a path, each part unescaped: a connector's name may hold an escaped slash.
func pathParts(r *http.Request) ([]string, error) {
	trimmed := strings.Trim(r.URL.EscapedPath(), "/")
	if trimmed == "" {
		return nil, nil
	}
	parts := strings.Split(trimmed, "/")
	for i, p := range parts {
		u, err := url.PathUnescape(p)
		if err != nil {
			return nil, err
		}
		parts[i] = u
	}
	return parts, nil
}

func getServer(a *api, _ *http.Request, _ []string) (reply, error) { return ok(a.herder.Server()) }

func getHealth(a *api, _ *http.Request, _ []string) (reply, error) {
	h := a.herder.Health()
	status := http.StatusOK
	switch h.Status {
	case "starting":
		status = http.StatusServiceUnavailable
	case "unhealthy":
		status = http.StatusInternalServerError
	}
	return reply{status: status, body: h}, nil
}

// listConnectors lists names, or with expand=status and expand=info what these say of each.
func listConnectors(a *api, r *http.Request, _ []string) (reply, error) {
	names := a.herder.Connectors()
	expand, found := r.URL.Query()["expand"]
	if !found {
		return ok(names)
	}
	out := map[string]map[string]any{}
	for _, name := range names {
		parts := map[string]any{}
		gone := false
		for _, e := range expand {
			var part any
			var err error
			switch e {
			case "status":
				part, err = a.herder.Status(name)
			case "info":
				part, err = a.herder.Info(name)
			default:
				continue
			}
			if err != nil {
				gone = true // it vanished meanwhile, or has no status yet
				break
			}
			parts[e] = part
		}
		if !gone {
			out[name] = parts
		}
	}
	return ok(out)
}

// texts is a flat configuration: strings, and what people write as numbers and booleans. A null removes a key where that
// is allowed.
type texts map[string]*string

// UnmarshalJSON takes scalars of any kind as their text.
func (t *texts) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*t = texts{}
	for k, v := range raw {
		var s string
		switch {
		case string(v) == "null":
			(*t)[k] = nil
			continue
		case len(v) > 0 && v[0] == '"':
			if err := json.Unmarshal(v, &s); err != nil {
				return err
			}
		case len(v) > 0 && (v[0] == '{' || v[0] == '['):
			return fmt.Errorf("the value of %s is not a string", k)
		default:
			s = string(v)
		}
		(*t)[k] = &s
	}
	return nil
}

// config gives the configuration without nulls.
func (t texts) config() map[string]string {
	out := make(map[string]string, len(t))
	for k, v := range t {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

func location(name string) string { return "/connectors/" + url.PathEscape(name) }

func createConnector(a *api, r *http.Request, _ []string) (reply, error) {
	var body struct {
		Name    string `json:"name"`
		Config  texts  `json:"config"`
		Initial string `json:"initial_state"`
	}
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	if body.Config == nil {
		body.Config = texts{}
	}
	var t worker.Target
	switch strings.ToUpper(body.Initial) {
	case "":
	case "RUNNING":
		t = worker.TargetStarted
	case "PAUSED", "STOPPED":
		t = worker.Target(strings.ToUpper(body.Initial))
	default:
		return reply{}, badRequest(fmt.Sprintf("initial_state %q is none of RUNNING, PAUSED and STOPPED", body.Initial))
	}
	info, err := a.herder.Create(r.Context(), body.Name, body.Config.config(), t)
	return reply{status: http.StatusCreated, body: info, location: location(info.Name)}, err
}

func getConnector(a *api, _ *http.Request, vars []string) (reply, error) {
	info, err := a.herder.Info(vars[0])
	return reply{status: http.StatusOK, body: info}, err
}

func deleteConnector(a *api, r *http.Request, vars []string) (reply, error) {
	return empty(http.StatusNoContent, a.herder.Delete(r.Context(), vars[0]))
}

func getConfig(a *api, _ *http.Request, vars []string) (reply, error) {
	info, err := a.herder.Info(vars[0])
	return reply{status: http.StatusOK, body: info.Config}, err
}

func putConfig(a *api, r *http.Request, vars []string) (reply, error) {
	var body texts
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	info, created, err := a.herder.PutConfig(r.Context(), vars[0], body.config())
	if created {
		return reply{status: http.StatusCreated, body: info, location: location(info.Name)}, err
	}
	return reply{status: http.StatusOK, body: info}, err
}

func patchConfig(a *api, r *http.Request, vars []string) (reply, error) {
	var body texts
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	info, err := a.herder.PatchConfig(r.Context(), vars[0], body)
	return reply{status: http.StatusOK, body: info}, err
}

func getStatus(a *api, _ *http.Request, vars []string) (reply, error) {
	s, err := a.herder.Status(vars[0])
	return reply{status: http.StatusOK, body: s}, err
}

func restart(a *api, r *http.Request, vars []string) (reply, error) {
	q := r.URL.Query()
	s, err := a.herder.Restart(r.Context(), vars[0], flag(q, "includeTasks"), flag(q, "onlyFailed"))
	if s == nil {
		return empty(http.StatusNoContent, err)
	}
	return reply{status: http.StatusAccepted, body: s}, err
}

func flag(q url.Values, name string) bool { return strings.EqualFold(q.Get(name), "true") }

func target(t worker.Target, status int) endpoint {
	return func(a *api, r *http.Request, vars []string) (reply, error) {
		return empty(status, a.herder.SetTarget(r.Context(), vars[0], t))
	}
}

func getTasks(a *api, _ *http.Request, vars []string) (reply, error) {
	tasks, err := a.herder.Tasks(vars[0])
	return reply{status: http.StatusOK, body: tasks}, err
}

// taskNumber reads a path's task; what is no number names nothing.
func taskNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, &fault{http.StatusNotFound, "HTTP 404 Not Found"}
	}
	return n, nil
}

func getTaskStatus(a *api, _ *http.Request, vars []string) (reply, error) {
	n, err := taskNumber(vars[1])
	if err != nil {
		return reply{}, err
	}
	s, err := a.herder.TaskStatus(vars[0], n)
	return reply{status: http.StatusOK, body: s}, err
}

func restartTask(a *api, r *http.Request, vars []string) (reply, error) {
	n, err := taskNumber(vars[1])
	if err != nil {
		return reply{}, err
	}
	return empty(http.StatusNoContent, a.herder.RestartTask(r.Context(), vars[0], n))
}

func getTopics(a *api, _ *http.Request, vars []string) (reply, error) {
	topics, err := a.herder.Topics(vars[0])
	return reply{status: http.StatusOK, body: map[string]any{vars[0]: map[string]any{"topics": topics}}}, err
}

func resetTopics(a *api, r *http.Request, vars []string) (reply, error) {
	return empty(http.StatusAccepted, a.herder.ResetTopics(r.Context(), vars[0]))
}

func getOffsets(a *api, r *http.Request, vars []string) (reply, error) {
	o, err := a.herder.Offsets(r.Context(), vars[0])
	return reply{status: http.StatusOK, body: o}, err
}

func patchOffsets(a *api, r *http.Request, vars []string) (reply, error) {
	var body worker.Offsets
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	if len(body.Offsets) == 0 {
		return reply{}, badRequest("Partitions / offsets need to be provided for an alter offsets request")
	}
	message, err := a.herder.AlterOffsets(r.Context(), vars[0], body.Offsets)
	return reply{status: http.StatusOK, body: map[string]string{"message": message}}, err
}

func deleteOffsets(a *api, r *http.Request, vars []string) (reply, error) {
	message, err := a.herder.AlterOffsets(r.Context(), vars[0], nil)
	return reply{status: http.StatusOK, body: map[string]string{"message": message}}, err
}

func listPlugins(a *api, r *http.Request, _ []string) (reply, error) {
	return ok(a.herder.Plugins(!strings.EqualFold(r.URL.Query().Get("connectorsOnly"), "false")))
}

func getPluginConfig(a *api, _ *http.Request, vars []string) (reply, error) {
	d, err := a.herder.PluginConfig(vars[0])
	return reply{status: http.StatusOK, body: d}, err
}

func validate(a *api, r *http.Request, vars []string) (reply, error) {
	var body texts
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	v, err := a.herder.Validate(r.Context(), vars[0], body.config())
	return reply{status: http.StatusOK, body: v}, err
}

func listLoggers(a *api, _ *http.Request, _ []string) (reply, error) { return ok(a.herder.Loggers()) }

func getLogger(a *api, _ *http.Request, vars []string) (reply, error) {
	l, found := a.herder.Loggers()[vars[0]]
	if !found {
		return reply{}, &fault{http.StatusNotFound, "Logger " + vars[0] + " not found."}
	}
	return ok(l)
}

func putLogger(a *api, r *http.Request, vars []string) (reply, error) {
	var body struct {
		Level string `json:"level"`
	}
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	if body.Level == "" {
		return reply{}, badRequest("Desired 'level' parameter was not specified in request.")
	}
	changed, err := a.herder.SetLogLevel(vars[0], body.Level)
	if err != nil {
		return reply{}, err
	}
	if strings.EqualFold(r.URL.Query().Get("scope"), "cluster") {
		return empty(http.StatusNoContent, nil)
	}
	return ok(changed)
}
