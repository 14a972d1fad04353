package convert

import (
	"errors"
	"fmt"

	"github.com/weirlog/weir/connect"
)

// dataError is an [ErrData] with the path of the field it is about.
type dataError struct {
	path   string
	reason string
}

func dataErrorf(format string, args ...any) error {
	return &dataError{reason: fmt.Sprintf(format, args...)}
}

// Error names the field, if there is one, and the reason.
func (e *dataError) Error() string {
	if e.path == "" {
		return ErrData.Error() + ": " + e.reason
	}
	return ErrData.Error() + ": field " + e.path + ": " + e.reason
}

// Unwrap gives [ErrData].
func (e *dataError) Unwrap() error { return ErrData }

// inField puts a field's name before the path of a dataError.
func inField(name string, err error) error {
	var e *dataError
	if !errors.As(err, &e) {
		return err
	}
	path := name
	if e.path != "" {
		path += "." + e.path
	}
	return &dataError{path: path, reason: e.reason}
}

func wrongKind(want, got connect.Kind) error {
	return dataErrorf("a %s where the schema says %s", got, want)
}
