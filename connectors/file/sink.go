package file

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/weirlog/weir/connect"
)

type sink struct {
	file    *os.File
	size    int64 // of the file, after the last whole Put
	buf     []byte
	next    map[connect.TopicPartition]int64 // after the last record written
	durable map[connect.TopicPartition]int64 // as last answered
	lines   atomic.Uint64
}

func openSink(_ context.Context, task connect.Task) (connect.SinkTask, error) {
	settings, results := connect.ParseConfig(Sink().Fields, task.Config)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(settings.String("file"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, classify(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &sink{
		file: f, size: info.Size(),
		next:    map[connect.TopicPartition]int64{},
		durable: map[connect.TopicPartition]int64{},
	}, nil
}

func (s *sink) Assign(context.Context, []connect.Assigned) ([]connect.Start, error) { return nil, nil }

func (s *sink) Revoke(_ context.Context, gone []connect.TopicPartition) error {
	for _, tp := range gone {
		delete(s.next, tp)
		delete(s.durable, tp)
	}
	return nil
}

// Put writes all records with one write, or nothing: what a failed write has left is cut off.
func (s *sink) Put(_ context.Context, records []connect.Record) error {
	s.buf = s.buf[:0]
	for i := range records {
		value := &records[i].Value
		if v := value.Value(); v.Kind() == connect.String {
			s.buf = append(s.buf, v.Str()...)
		} else {
			var err error
			if s.buf, err = (connect.JSONText{}).Append(s.buf, value.Schema(), v); err != nil {
				return connect.BadRecord(i, err)
			}
		}
		s.buf = append(s.buf, '\n')
	}
	if n, err := s.file.Write(s.buf); err != nil {
		if n > 0 {
			if cut := s.file.Truncate(s.size); cut != nil {
				return fmt.Errorf("cut off what a failed write left: %w", cut)
			}
		}
		return classify(err)
	}
	s.size += int64(len(s.buf))
	s.lines.Add(uint64(len(records)))
	for i := range records {
		o := records[i].Origin
		s.next[connect.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset + 1
	}
	return nil
}

func (s *sink) Flush(context.Context, []connect.Committed) (connect.Flushed, error) {
	var f connect.Flushed
	for tp, next := range s.next {
		if s.durable[tp] != next {
			f.Durable = append(f.Durable, connect.Committed{TopicPartition: tp, Offset: next})
		}
	}
	if len(f.Durable) == 0 {
		return f, nil
	}
	if err := s.file.Sync(); err != nil {
		return connect.Flushed{}, classify(err)
	}
	for _, c := range f.Durable {
		s.durable[c.TopicPartition] = c.Offset
	}
	return f, nil
}

func (s *sink) Stats() connect.Stats { return connect.Stats{Progress: s.lines.Load()} }

func (s *sink) Close(context.Context) error { return s.file.Close() }
