package record

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// place patches what a log patches.
func place(batch []byte, base int64) []byte {
	for i := range 8 {
		batch[i] = byte(base >> (56 - 8*i))
	}
	return batch
}

func TestBatchIsKafkas(t *testing.T) {
	records := []Record{{Key: []byte("k"), Value: []byte("v")}, {Key: nil, Value: []byte{}}, {Key: []byte{}, Value: nil}}
	at := time.UnixMilli(1_700_000_000_123)
	raw := AppendBatch([]byte("before"), records, at)[len("before"):]
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if b.Magic != 2 || b.NumRecords != 3 || b.LastOffsetDelta != 2 || int(b.Length) != len(raw)-12 || b.PartitionLeaderEpoch != -1 {
		t.Errorf("%+v", b)
	}
	if b.FirstTimestamp != at.UnixMilli() || b.MaxTimestamp != at.UnixMilli() || b.ProducerID != -1 || b.ProducerEpoch != -1 || b.FirstSequence != -1 {
		t.Errorf("%+v", b)
	}
	if crc := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)); uint32(b.CRC) != crc {
		t.Errorf("crc %x, want %x", b.CRC, crc)
	}
	rest := b.Records
	for i, want := range records {
		var r kmsg.Record
		size, n := int(rest[0])/2, 1
		if err := r.ReadFrom(rest[:size+n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[size+n:]
		if int(r.OffsetDelta) != i || !bytes.Equal(r.Key, want.Key) || (r.Value == nil) != (want.Value == nil) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

func TestScan(t *testing.T) {
	var log []byte
	at := time.UnixMilli(1)
	var want []string
	for i, base := range []int64{0, 3, 10} { // a gap between 6 and 10
		var records []Record
		for j := range 3 {
			records = append(records, Record{Key: fmt.Appendf(nil, "%d.%d", i, j), Value: []byte("v")})
			if offset := base + int64(j); offset >= 1 && offset < 11 {
				want = append(want, fmt.Sprintf("%d=%d.%d", offset, i, j))
			}
		}
		log = append(log, place(AppendBatch(nil, records, at), base)...)
	}
	read := func(next, end int64, maxBytes int, dst [][]byte) ([][]byte, error) { return append(dst, log), nil }
	var got []string
	err := Scan(read, 1, 11, func(offset int64, key, _ []byte) error {
		got = append(got, fmt.Sprintf("%d=%s", offset, key))
		return nil
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	stop := errors.New("stop")
	if err := Scan(read, 0, 11, func(int64, []byte, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the caller's error: %v", err)
	}
	log[21+1] |= 1 // gzip
	if err := Scan(read, 0, 11, func(int64, []byte, []byte) error { return nil }); !errors.Is(err, ErrMalformed) {
		t.Errorf("compressed: %v", err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(AppendBatch(nil, []Record{{Key: []byte("k"), Value: []byte("v")}, {}}, time.UnixMilli(5)))
	f.Fuzz(func(t *testing.T, b []byte) {
		reads := 0
		read := func(next, end int64, maxBytes int, dst [][]byte) ([][]byte, error) {
			if reads++; reads > 1 {
				return dst, nil
			}
			return append(dst, b), nil
		}
		_ = Scan(read, 0, 1<<40, func(offset int64, key, value []byte) error {
			if len(key)+len(value) > len(b) {
				t.Fatalf("record %d is larger than the batch", offset)
			}
			return nil
		})
	})
}
