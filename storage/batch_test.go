package storage

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/weirlog/weir/storage/vfs"
)

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func lz4ed(data []byte) []byte {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func zstded(data []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return w.EncodeAll(data, nil)
}

func snappied(data []byte) []byte { return s2.EncodeSnappy(nil, data) }

// xerialed is Java's framing, in two blocks.
func xerialed(data []byte) []byte {
	out := append([]byte(nil), xerialMagic...)
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 1)
	half := len(data) / 2
	for _, part := range [][]byte{data[:half], data[half:]} {
		block := s2.EncodeSnappy(nil, part)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

func codecs() map[string]testBatch {
	return map[string]testBatch{
		"none":   {},
		"gzip":   {codec: codecGzip, compress: gzipped},
		"snappy": {codec: codecSnappy, compress: snappied},
		"xerial": {codec: codecSnappy, compress: xerialed},
		"lz4":    {codec: codecLZ4, compress: lz4ed},
		"zstd":   {codec: codecZstd, compress: zstded},
	}
}

func TestWalk(t *testing.T) {
	for name, tb := range codecs() {
		t.Run(name, func(t *testing.T) {
			tb.records, tb.valueBytes, tb.fill, tb.timestamp = 20, 300, 'v', 1000
			b, err := ParseBatch(tb.build())
			if err != nil {
				t.Fatal(err)
			}
			if err := b.CheckCRC(); err != nil {
				t.Fatal(err)
			}
			n := int32(0)
			err = b.Walk(func(r Record) error {
				if r.OffsetDelta != n || r.TimestampDelta != int64(n) || string(r.Key) != "k" || len(r.Value) != 300 || r.Value[299] != 'v' {
					t.Fatalf("record %d: %+v", n, r)
				}
				n++
				return nil
			})
			if err != nil || n != 20 {
				t.Fatalf("%d records, %v", n, err)
			}
		})
	}
}

// TestAppendRefuses is what a client may not send.
func TestAppendRefuses(t *testing.T) {
	crc := testBatch{}.build()
	crc[68] ^= 1
	magic := testBatch{}.build()
	magic[16] = 1
	two := append(testBatch{}.build(), testBatch{}.build()...)
	count := Batch(testBatch{records: 3}.build())
	binary.BigEndian.PutUint32(count[57:], 2)
	count.setLogAppendTime(0)
	stamped := Batch(testBatch{}.build())
	stamped.setLogAppendTime(testNow.UnixMilli())
	codec := testBatch{codec: 5}.build()
	now := testNow.UnixMilli()
	tests := []struct {
		name  string
		batch []byte
		cfg   LogConfig
		want  error
	}{
		{"nothing", nil, LogConfig{}, ErrCorruptBatch},
		{"a cut header", testBatch{}.build()[:60], LogConfig{}, ErrCorruptBatch},
		{"a cut batch", testBatch{}.build()[:65], LogConfig{}, ErrCorruptBatch},
		{"two batches", two, LogConfig{}, ErrCorruptBatch},
		{"another magic", magic, LogConfig{}, ErrCorruptBatch},
		{"a wrong crc", crc, LogConfig{}, ErrCorruptBatch},
		{"a base offset", testBatch{base: 7}.build(), LogConfig{}, ErrInvalidBatch},
		{"a wrong count", count, LogConfig{}, ErrInvalidBatch},
		{"a control batch", testBatch{control: true}.build(), LogConfig{}, ErrInvalidBatch},
		{"an unknown codec", codec, LogConfig{}, ErrInvalidBatch},
		{"a producer without sequence", testBatch{producer: 1, sequence: -1}.build(), LogConfig{}, ErrInvalidBatch},
		{"too much", testBatch{valueBytes: 2000}.build(), LogConfig{MaxMessageBytes: 1000}, ErrTooLarge},
		{"more than a round", testBatch{valueBytes: 100_000}.build(), LogConfig{}, ErrTooLarge},
		{"no key, compacted", testBatch{noKey: true}.build(), LogConfig{Cleanup: CleanupCompact}, ErrNoKey},
		{"no key inside zstd, compacted", testBatch{noKey: true, codec: codecZstd, compress: zstded}.build(), LogConfig{Cleanup: CleanupCompact | CleanupDelete}, ErrNoKey},
		{"rubbish as zstd, compacted", testBatch{codec: codecZstd}.build(), LogConfig{Cleanup: CleanupCompact}, ErrCorruptBatch},
		{"a snappy bomb, compacted", testBatch{codec: codecSnappy, compress: func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0x3f, 1} }}.build(), LogConfig{Cleanup: CleanupCompact}, ErrCorruptBatch},
		{"a time too far ahead", testBatch{timestamp: now + 5000}.build(), LogConfig{TimestampAfter: time.Second}, ErrInvalidTimestamp},
		{"a time too far behind", testBatch{timestamp: now - 5000}.build(), LogConfig{TimestampBefore: time.Second}, ErrInvalidTimestamp},
		{"a log append time", stamped, LogConfig{}, ErrInvalidTimestamp},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem())
			l, err := s.OpenLog(testID(1), "a-0", test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			before := append([]byte(nil), test.batch...)
			if _, err := l.Append(test.batch, 0, testNow); !errors.Is(err, test.want) {
				t.Fatalf("append: %v, want %v", err, test.want)
			}
			if !bytes.Equal(before, test.batch) || l.EndOffset() != 0 {
				t.Fatal("something was changed")
			}
		})
	}
}

func TestLogAppendTime(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{TimestampType: LogAppendTime})
	if err != nil {
		t.Fatal(err)
	}
	sent := testBatch{records: 3, timestamp: 5, producer: 1}.build()
	a, err := l.Append(sent, 0, testNow)
	if err != nil || a.LogAppendTime != testNow.UnixMilli() {
		t.Fatalf("%+v, %v", a, err)
	}
	got, err := l.Read(0, 3, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := Batch(got[0])
	if b.MaxTimestamp() != testNow.UnixMilli() || b.Attributes()&attrLogAppendTime == 0 || b.CheckCRC() != nil {
		t.Fatalf("time %d, attributes %x, %v", b.MaxTimestamp(), b.Attributes(), b.CheckCRC())
	}
	again, err := l.Append(sent, 0, testNow.Add(time.Hour))
	if err != nil || !again.Duplicate || again.LogAppendTime != a.LogAppendTime || again.Ticket != a.Ticket {
		t.Fatalf("duplicate: %+v, %v", again, err)
	}
}

// TestSequences is the idempotence of producers, step by step.
func TestSequences(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	const top = 1<<31 - 1
	steps := []struct {
		epoch    int16
		sequence int32
		records  int
		base     int64
		isDouble bool
		err      error
	}{
		{0, 10, 2, 0, false, nil}, // unknown: may begin anywhere
		{0, 12, 1, 2, false, nil},
		{0, 10, 2, 0, true, nil},
		{0, 14, 1, 0, false, ErrOutOfOrderSequence},
		{0, 10, 1, 0, false, ErrOutOfOrderSequence}, // part of a batch is no duplicate
		{1, 1, 1, 0, false, ErrOutOfOrderSequence},  // a new epoch begins with 0
		{1, 0, 1, 3, false, nil},
		{0, 13, 1, 0, false, ErrProducerFenced},
		{1, 1, 1, 4, false, nil},
		{1, 2, 1, 5, false, nil},
		{1, 3, 1, 6, false, nil},
		{1, 4, 1, 7, false, nil},
		{1, 0, 1, 3, true, nil}, // the fifth last
		{1, 5, 1, 8, false, nil},
		{1, 0, 1, 0, false, ErrOutOfOrderSequence}, // beyond the window
	}
	for i, step := range steps {
		a, err := l.Append(testBatch{producer: 9, producerEpoch: step.epoch, sequence: step.sequence, records: step.records}.build(), 0, testNow)
		if !errors.Is(err, step.err) {
			t.Fatalf("step %d: %v, want %v", i, err, step.err)
		}
		if err == nil && (a.BaseOffset != step.base || a.Duplicate != step.isDouble) {
			t.Fatalf("step %d: %+v", i, a)
		}
	}
	for i, sequence := range []int32{top - 1, 1, 2} { // three records: 2^31-2, 2^31-1, 0
		records := []int{3, 1, 1}[i]
		if _, err := l.Append(testBatch{producer: 10, sequence: sequence, records: records}.build(), 0, testNow); err != nil {
			t.Fatalf("wrap %d: %v", i, err)
		}
	}
}

// TestProducersExpire: idle state goes with a flush, and an unknown producer may go on anywhere.
func TestProducersExpire(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	l, err := s.OpenLog(testID(1), "a-0", LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(sequence int32, now time.Time) error {
		_, err := l.Append(testBatch{producer: 1, sequence: sequence}.build(), 0, now)
		return err
	}
	if err := send(0, testNow); err != nil {
		t.Fatal(err)
	}
	if err := send(7, testNow.Add(23*time.Hour)); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Fatal(err)
	}
	if err := s.Flush(testNow.Add(25 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := send(7, testNow.Add(25*time.Hour)); err != nil {
		t.Fatal(err)
	}
}

func FuzzBatch(f *testing.F) {
	for _, tb := range codecs() {
		tb.records, tb.valueBytes = 3, 40
		f.Add(tb.build())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBatch(data)
		if err != nil {
			if !errors.Is(err, ErrCorruptBatch) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		if len(b) > len(data) || b.LastOffset() < b.BaseOffset() {
			t.Fatalf("%d bytes, offsets %d–%d", len(b), b.BaseOffset(), b.LastOffset())
		}
		n := int32(0)
		if err := b.Walk(func(Record) error { n++; return nil }); err == nil && n != b.RecordCount() {
			t.Fatalf("%d records of %d", n, b.RecordCount())
		} else if err != nil && !errors.Is(err, ErrCorruptBatch) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("error of no known kind: %v", err)
		}
	})
}
