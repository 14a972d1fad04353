package file

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/weirlog/weir/connect"
)

const version = "1.0.0"

// Source reads the lines of a file.
func Source() connect.Connector {
	least := int64(1)
	return connect.Connector{
		Name:    "file-source",
		Aliases: []string{"org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSourceConnector", "FileStreamSource"},
		Version: version,
		Doc:     "Reads the lines of a file into a topic and follows the file as it grows",
		Fields: []connect.Field{
			{Name: "file", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The file to read. It may appear later."},
			{Name: "topic", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The topic to write the lines to."},
			{Name: "batch.size", Type: connect.TypeInt, Default: "2000", Min: &least, Importance: connect.Low, Doc: "How many lines are read at a time at most."},
		},
		Source: openSource,
	}
}

// Sink appends records to a file.
func Sink() connect.Connector {
	return connect.Connector{
		Name:    "file-sink",
		Aliases: []string{"org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSinkConnector", "FileStreamSink"},
		Version: version,
		Doc:     "Appends the values of records to a file, one per line",
		Fields: []connect.Field{
			{Name: "file", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The file to append to. It is made if it is not there; its folder must exist."},
		},
		Sink: openSink,
	}
}

// classify tells what the worker can do about an error of the file system.
func classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return connect.BadConfig("file", fmt.Errorf("%w: name a file that the worker's user may open", err))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return connect.Retry(0, fmt.Errorf("%w: free some space", err))
	}
	return err
}
