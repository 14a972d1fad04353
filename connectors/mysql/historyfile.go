package mysql

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxHistoryRecord bounds one line of a history file; a structure of a thousand columns
// is a tenth of it.
const maxHistoryRecord = 64 << 20

// compactJSON gives JSON without blanks between its parts.
func compactJSON(in []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, in); err != nil {
		return in // it is ours: it compacts
	}
	return out.Bytes()
}

// fileStore keeps records in a file, one a line. A line that was being written when the
// machine stopped has no end and isn't read; the next write begins behind it.
func fileStore(name string) store {
	return store{
		exists: func(context.Context) (bool, error) {
			info, err := os.Stat(name)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil && info.Size() > 0, err
		},
		each: func(ctx context.Context, f func(string, []byte) error) error { return eachLine(ctx, name, f) },
		append: func(_ context.Context, records [][]byte) error {
			return appendLines(name, records)
		},
		close: func() {},
	}
}

func eachLine(ctx context.Context, name string, f func(where string, record []byte) error) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<16)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > maxHistoryRecord {
			return fmt.Errorf("%s:%d: a record of %d bytes", name, n, len(line))
		}
		if err := f(fmt.Sprintf("%s:%d", name, n), line); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func appendLines(name string, records [][]byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var out bytes.Buffer
	if torn, err := endsTorn(file); err != nil {
		return err
	} else if torn {
		out.WriteByte('\n')
	}
	for _, r := range records {
		out.Write(r)
		out.WriteByte('\n')
	}
	if _, err := file.Write(out.Bytes()); err != nil {
		return err
	}
	return file.Sync()
}

// endsTorn says whether a file's last line has no end.
func endsTorn(file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

// memoryStore keeps records as long as the task: for tests, and for who takes a
// snapshot at each start.
func memoryStore() store {
	var records [][]byte
	return store{
		exists: func(context.Context) (bool, error) { return len(records) > 0, nil },
		each: func(_ context.Context, f func(string, []byte) error) error {
			for i, r := range records {
				if err := f(fmt.Sprintf("record %d", i), r); err != nil {
					return err
				}
			}
			return nil
		},
		append: func(_ context.Context, more [][]byte) error { records = append(records, more...); return nil },
		close:  func() {},
	}
}
