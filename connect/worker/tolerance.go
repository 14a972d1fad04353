package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/weirlog/weir/connect"
)

// Stages at which a record can fail, as Kafka Connect names them.
const (
	stageKey       = "KEY_CONVERTER"
	stageValue     = "VALUE_CONVERTER"
	stageHeader    = "HEADER_CONVERTER"
	stageTransform = "TRANSFORMATION"
	stagePut       = "TASK_PUT"
	stagePoll      = "TASK_POLL"
	stageProduce   = "KAFKA_PRODUCE"
)

// recordError is a record's failure at a stage.
type recordError struct {
	stage string
	class string // whose fault: a converter, the transforms, the connector
	err   error
}

func (e *recordError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }

// tolerance is errors.*: what becomes of a record that fails.
type tolerance struct {
	all         bool
	retryFor    time.Duration // negative: for ever
	delayMax    time.Duration
	logEnabled  bool
	logMessages bool
	log         *slog.Logger
	count       *counters
}

func newTolerance(s *connect.Settings, log *slog.Logger, count *counters) *tolerance {
	return &tolerance{all: s.String("errors.tolerance") == "all", retryFor: s.Millis("errors.retry.timeout"),
		delayMax: s.Millis("errors.retry.delay.max.ms"), logEnabled: s.Bool("errors.log.enable"),
		logMessages: s.Bool("errors.log.include.messages"), log: log, count: count}
}

// attempt runs one stage of one record, repeating it while it asks for a retry and errors.retry.timeout lasts. The error
// of the last try is returned, as it is (a retry that ran out is an error as any other).
func (t *tolerance) attempt(ctx context.Context, f func() error) error {
	err := f()
	if err == nil || t.retryFor == 0 || connect.KindOf(ctx, err) != connect.KindRetry {
		return err
	}
	back := backoff{min: min(300*time.Millisecond, max(t.delayMax, time.Millisecond)), max: max(t.delayMax, time.Millisecond)}
	start := time.Now()
	for {
		delay := back.next()
		if t.retryFor > 0 {
			left := t.retryFor - time.Since(start)
			if left <= 0 {
				return err
			}
			delay = min(delay, left)
		}
		if !sleep(ctx, delay) {
			return ctx.Err()
		}
		t.count.retries.Add(1)
		if err = f(); err == nil || connect.KindOf(ctx, err) != connect.KindRetry {
			return err
		}
	}
}

// failed counts and logs a record's failure and returns nil if it is to be left out, the task's error otherwise.
func (t *tolerance) failed(e *recordError, where string) error {
	t.count.errors.Add(1)
	if t.logEnabled {
		args := []any{"stage", e.stage, "class", e.class, "error", e.err}
		if t.logMessages {
			args = append(args, "record", where)
		}
		t.log.Error("a record could not be processed", args...)
	}
	if t.all {
		return nil
	}
	err := error(e)
	if where != "" {
		err = fmt.Errorf("%s: %w", where, e)
	}
	return fmt.Errorf("tolerance exceeded in error handler: %w", err)
}

// context gives the headers of a dead letter; topic "" leaves out the origin.
func (e *recordError) context(id TaskID, topic string, partition int32, offset int64) []headerText {
	h := make([]headerText, 0, 10)
	if topic != "" {
		h = append(h, headerText{"topic", topic}, headerText{"partition", strconv.Itoa(int(partition))},
			headerText{"offset", strconv.FormatInt(offset, 10)})
	}
	root := e.err
	for next := errors.Unwrap(root); next != nil; next = errors.Unwrap(root) {
		root = next
	}
	return append(h, headerText{"connector.name", id.Connector}, headerText{"task.id", strconv.Itoa(id.Task)},
		headerText{"stage", e.stage}, headerText{"class.name", e.class},
		headerText{"exception.class.name", fmt.Sprintf("%T", root)},
		headerText{"exception.message", e.err.Error()}, headerText{"exception.stacktrace", e.Error()})
}

// headerText is a context header without its prefix.
type headerText struct{ name, value string }

// errorHeaders is the prefix of context headers.
const errorHeaders = "__connect.errors."
