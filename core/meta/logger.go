package meta

import (
	"fmt"
	"log/slog"
)

// raftLogger takes raft's own words, most of them at the level of debugging.
type raftLogger struct{ to *slog.Logger }

// raftPanic is what raft panics with.
type raftPanic string

// words are formatted only if somebody listens.
type words struct {
	format string
	args   []any
}

// LogValue implements slog.LogValuer.
func (w words) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf(w.format, w.args...)) }

func (l raftLogger) Debug(v ...any)                   { l.to.Debug("raft", "says", v) }
func (l raftLogger) Debugf(format string, v ...any)   { l.to.Debug("raft", "says", words{format, v}) }
func (l raftLogger) Info(v ...any)                    { l.to.Debug("raft", "says", v) }
func (l raftLogger) Infof(format string, v ...any)    { l.to.Debug("raft", "says", words{format, v}) }
func (l raftLogger) Warning(v ...any)                 { l.to.Debug("raft", "says", v) }
func (l raftLogger) Warningf(format string, v ...any) { l.to.Debug("raft", "says", words{format, v}) }
func (l raftLogger) Error(v ...any)                   { l.to.Warn("raft", "says", v) }
func (l raftLogger) Errorf(format string, v ...any)   { l.to.Warn("raft", "says", words{format, v}) }
func (l raftLogger) Fatal(v ...any)                   { panic(raftPanic(fmt.Sprint(v...))) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic(raftPanic(fmt.Sprintf(format, v...))) }
func (l raftLogger) Panic(v ...any)                   { panic(raftPanic(fmt.Sprint(v...))) }
func (l raftLogger) Panicf(format string, v ...any)   { panic(raftPanic(fmt.Sprintf(format, v...))) }
