package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlog/weir/connect"
)

const (
	readBytes   = 256 << 10              // read at a time
	lookEvery   = 100 * time.Millisecond // how often a file at its end is looked at
	faultSample = 1 << 10                // bytes of a line that is too long which are kept
)

var lineSchema = &connect.Schema{Type: connect.String}

type source struct {
	path, topic  string
	batchRecords int
	maxLineBytes int

	partition []connect.OffsetMap
	file      *os.File // nil while there is none
	buf       []byte   // read and not yet given
	position  int64    // in file, of buf's first byte
	long      *connect.Fault
	seq       uint64
	lines     atomic.Uint64
}

func openSource(_ context.Context, task connect.Task) (connect.SourceTask, error) {
	settings, results := connect.ParseConfig(Source().Fields, task.Config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	s := &source{
		path:         settings.String("file"),
		topic:        settings.String("topic"),
		batchRecords: int(settings.Int("batch.size")),
		maxLineBytes: int(min(max(task.MemoryBytes/4, 64<<10), 16<<20)),
	}
	s.partition = []connect.OffsetMap{{{Name: "filename", Value: connect.StringValue(s.path)}}}
	s.position = max(task.Offset(s.partition[0]).Get("position").Int(), 0)
	return s, s.open()
}

// open opens the file at the position; a file that is not there is no error.
func (s *source) open() error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = connect.BadConfig("file", fmt.Errorf("%s is a folder", s.path))
	}
	if err != nil {
		f.Close()
		return err
	}
	s.file = f
	return nil
}

func (s *source) Poll(ctx context.Context) (connect.Batch, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if batch := s.take(); len(batch.Records) > 0 {
			return batch, nil
		}
		more, err := s.fill()
		if err != nil {
			return connect.Batch{}, err
		}
		if batch := s.take(); len(batch.Records) > 0 {
			return batch, nil
		}
		if more && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return connect.Batch{}, nil
		case <-tick.C:
		}
	}
}

// fill reads on, and tells whether there may be more at once.
func (s *source) fill() (bool, error) {
	if s.file == nil {
		if err := s.open(); err != nil || s.file == nil {
			return false, err
		}
	}
	have := len(s.buf)
	s.buf = append(s.buf, make([]byte, readBytes)...)
	n, err := s.file.ReadAt(s.buf[have:], s.position+int64(have))
	s.buf = s.buf[:have+n]
	if err != nil && err != io.EOF {
		return false, err
	}
	s.cutLongLine()
	if n > 0 {
		return true, nil
	}
	return s.replaced()
}

// cutLongLine drops the beginning of a line that exceeds the memory, and remembers that it has.
func (s *source) cutLongLine() {
	if len(s.buf) <= s.maxLineBytes || bytes.IndexByte(s.buf, '\n') >= 0 {
		return
	}
	if s.long == nil {
		s.long = &connect.Fault{
			Reason: fmt.Sprintf("the line at byte %d of %s is longer than %d bytes", s.position, s.path, s.maxLineBytes),
			Bytes:  bytes.Clone(s.buf[:faultSample]),
		}
	}
	s.position += int64(len(s.buf))
	s.buf = s.buf[:0]
}

// replaced notices at the file's end that another file has taken its name, or that it was cut short: reading goes on at
// the beginning. What was held of a last line without a line feed is complete then.
func (s *source) replaced() (bool, error) {
	opened, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // renamed away; the next file has not come yet
	}
	if err != nil {
		return false, classify(err)
	}
	same := os.SameFile(opened, named)
	if same && named.Size() >= s.position+int64(len(s.buf)) {
		return false, nil
	}
	if (len(s.buf) > 0 || s.long != nil) && !same {
		s.buf = append(s.buf, '\n')
		s.position = -int64(len(s.buf)) // the position after this line is the new file's beginning
	} else {
		s.buf, s.position, s.long = s.buf[:0], 0, nil
	}
	s.file.Close()
	s.file = nil
	return true, nil
}

// take gives the whole lines that were read, at most a batch of them.
func (s *source) take() connect.Batch {
	end, count := 0, 0
	for count < s.batchRecords {
		i := bytes.IndexByte(s.buf[end:], '\n')
		if i < 0 {
			break
		}
		end += i + 1
		count++
	}
	if count == 0 {
		return connect.Batch{}
	}
	s.seq++
	s.lines.Add(uint64(count))
	batch := connect.Batch{Seq: s.seq, Sources: s.partition, Records: make([]connect.Record, count), Marks: make([]connect.Mark, count)}
	text := string(s.buf[:end])
	now := time.Now().UnixMilli()
	for i := range count {
		line := text[:strings.IndexByte(text, '\n')+1]
		text = text[len(line):]
		s.position += int64(len(line))
		batch.Records[i] = connect.Record{Topic: s.topic, Partition: connect.AnyPartition, Timestamp: now, Value: lineData(line), Fault: s.long}
		batch.Marks[i] = connect.Mark{After: i + 1, Offset: connect.OffsetMap{{Name: "position", Value: connect.Int64Value(s.position)}}}
		s.long = nil
	}
	s.buf = append(s.buf[:0], s.buf[end:]...)
	return batch
}

func lineData(line string) connect.Data {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return connect.DataOf(lineSchema, connect.StringValue(line))
}

func (s *source) Commit(context.Context, connect.Acked) error  { return nil }
func (s *source) Signal(context.Context, connect.Signal) error { return nil }

func (s *source) Stats() connect.Stats { return connect.Stats{Progress: s.lines.Load()} }

func (s *source) Close(context.Context) error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
