package worker

import (
	"log/slog"
	"slices"
	"sort"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/convert"
	"github.com/weirlog/weir/connect/transform"
)

// Plugins lists the classes that the worker knows, connectors only or all. A connector is listed under each Java class
// that it answers to, since tools look for those, or under its short name if there is none.
func (w *Worker) Plugins(connectorsOnly bool) []Plugin {
	out := []Plugin{}
	for i := range w.deps.Connectors {
		c := &w.deps.Connectors[i]
		classes := slices.DeleteFunc(slices.Clone(c.Aliases), func(a string) bool { return !strings.Contains(a, ".") })
		for _, class := range append(classes, c.Name) {
			out = append(out, Plugin{Class: class, Type: connectorType(c), Version: c.Version})
		}
	}
	if !connectorsOnly {
		for _, c := range convert.Classes() {
			out = append(out, Plugin{Class: c.Class, Type: string(c.Kind), Version: w.deps.Version})
		}
		for _, c := range transform.Classes() {
			out = append(out, Plugin{Class: c.Class, Type: string(c.Kind), Version: w.deps.Version})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Class < out[j].Class })
	return out
}

// PluginConfig lists a class's configuration keys.
func (w *Worker) PluginConfig(class string) ([]Definition, error) {
	var fields []connect.Field
	found := false
	if c := w.connector(class); c != nil {
		fields, found = append(connectorFields(c.Sink != nil), c.Fields...), true
	}
	for _, c := range convert.Classes() {
		if !found && (c.Class == class || slices.Contains(c.Aliases, class)) {
			fields, found = c.Fields, true
		}
	}
	for _, c := range transform.Classes() {
		if !found && (c.Class == class || slices.Contains(c.Aliases, class)) {
			fields, found = c.Fields, true
		}
	}
	if !found {
		return nil, notFound("Unknown plugin %s.", class)
	}
	out := []Definition{}
	seen := map[string]bool{}
	for i := range fields {
		if !fields[i].Prefix && !seen[fields[i].Name] {
			seen[fields[i].Name] = true
			out = append(out, *definition(&fields[i], i))
		}
	}
	return out, nil
}

// Logger is a logger's level: "level" in Log4j's words, and when it was last changed in milliseconds, nil for never.
type Logger struct {
	Level        *string `json:"level"`
	LastModified *int64  `json:"last_modified"`
}

// rootLogger is the one logger that weir has.
const rootLogger = "root"

// logLevels are Log4j's levels and what they mean here.
func logLevels() map[string]slog.Level {
	return map[string]slog.Level{"OFF": slog.LevelError + 8, "FATAL": slog.LevelError + 4, "ERROR": slog.LevelError,
		"WARN": slog.LevelWarn, "INFO": slog.LevelInfo, "DEBUG": slog.LevelDebug, "TRACE": slog.LevelDebug - 4}
}

// Loggers lists the loggers: weir has one, named root.
func (w *Worker) Loggers() map[string]Logger {
	level := "INFO"
	if w.deps.LogLevel != nil {
		for name, l := range logLevels() {
			if l == w.deps.LogLevel.Level() {
				level = name
			}
		}
	}
	out := Logger{Level: &level}
	if at := w.loggers.Load(); at != 0 {
		out.LastModified = &at
	}
	return map[string]Logger{rootLogger: out}
}

// SetLogLevel changes a logger's level and lists the loggers that changed.
func (w *Worker) SetLogLevel(logger, level string) ([]string, error) {
	l, ok := logLevels()[strings.ToUpper(level)]
	switch {
	case !ok:
		return nil, notFound("invalid log level '%s'.", level)
	case logger != rootLogger:
		return nil, notFound("Logger %s not found: this worker has one, named %s", logger, rootLogger)
	case w.deps.LogLevel == nil:
		return nil, badRequest("the log level of this process is fixed")
	}
	w.deps.LogLevel.Set(l)
	w.loggers.Store(w.now().UnixMilli())
	return []string{rootLogger}, nil
}
