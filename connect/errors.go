package connect

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrorKind is what an error asks the worker to do. The list is closed: it crosses process borders.
type ErrorKind uint8

// The kinds of error.
const (
	KindOther     ErrorKind = 0 // the task is FAILED, then restarted with back-off
	KindRetry     ErrorKind = 1 // the same call again after a delay; the task stays RUNNING and shows the reason
	KindBadRecord ErrorKind = 2 // one record of a Put can't be written; the call is repeated without it
	KindBadConfig ErrorKind = 3 // FAILED until the configuration changes
	KindEnded     ErrorKind = 4 // the call's context ended: no error
)

// Error is an error with a kind. Make it with [Retry], [BadRecord] or [BadConfig].
type Error struct {
	Kind  ErrorKind
	After time.Duration // of Retry: how long to wait; 0 lets the worker choose
	Index int           // of BadRecord: which record of the Put
	Field string        // of BadConfig: the configuration key, "" for none
	Err   error
}

// Retry asks for the same call again after a delay (0: the worker's own back-off).
func Retry(after time.Duration, err error) error {
	return &Error{Kind: KindRetry, After: after, Err: err}
}

// BadRecord says that record i of this Put can't be written, ever. Records before i may have been written; the worker
// puts the batch again without i.
func BadRecord(i int, err error) error { return &Error{Kind: KindBadRecord, Index: i, Err: err} }

// BadConfig says that the task can't run until its configuration (or the foreign system's settings) changes.
func BadConfig(field string, err error) error {
	return &Error{Kind: KindBadConfig, Field: field, Err: err}
}

// Error gives the reason, with the key of a BadConfig.
func (e *Error) Error() string {
	if e.Kind == KindBadConfig && e.Field != "" {
		return fmt.Sprintf("%s: %v", e.Field, e.Err)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf classifies err for a call made with ctx: the one place that decides. An error after ctx ended is none.
func KindOf(ctx context.Context, err error) ErrorKind {
	if ctx.Err() != nil {
		return KindEnded
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindOther
}
