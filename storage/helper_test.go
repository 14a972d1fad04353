package storage

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/weirlog/weir/storage/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testNow is where test clocks begin.
var testNow = time.UnixMilli(1_700_000_000_000)

// testBatch describes a batch to build.
type testBatch struct {
	base, producer, timestamp int64
	epoch                     int32
	producerEpoch             int16
	sequence                  int32
	records                   int
	valueBytes                int
	fill                      byte
	noKey, control            bool
	manyKeys                  bool // keys and tombstones that follow from fill
	codec                     int
	compress                  func([]byte) []byte
}

// build encodes the batch; producer 0 means none.
func (tb testBatch) build() []byte {
	var records []byte
	for i := range max(tb.records, 1) {
		records = appendTestRecord(records, int64(i), tb)
	}
	if tb.compress != nil {
		records = tb.compress(records)
	}
	b := make(Batch, HeaderBytes, HeaderBytes+len(records))
	b = append(b, records...)
	be := binary.BigEndian
	be.PutUint64(b, uint64(tb.base))
	be.PutUint32(b[8:], uint32(len(b)-lengthStartBytes))
	be.PutUint32(b[12:], uint32(tb.epoch))
	b[16] = magicV2
	attributes := tb.codec
	if tb.control {
		attributes |= attrControl
	}
	be.PutUint16(b[21:], uint16(attributes))
	be.PutUint32(b[23:], uint32(max(tb.records, 1)-1))
	be.PutUint64(b[27:], uint64(tb.timestamp))
	be.PutUint64(b[35:], uint64(tb.timestamp+int64(max(tb.records, 1)-1)))
	producer, producerEpoch, sequence := tb.producer, tb.producerEpoch, tb.sequence
	if producer == 0 {
		producer, producerEpoch, sequence = -1, -1, -1
	}
	be.PutUint64(b[43:], uint64(producer))
	be.PutUint16(b[51:], uint16(producerEpoch))
	be.PutUint32(b[53:], uint32(sequence))
	be.PutUint32(b[57:], uint32(max(tb.records, 1)))
	be.PutUint32(b[17:], crc32.Checksum(b[crcStartBytes:], castagnoli))
	return b
}

func appendTestRecord(dst []byte, delta int64, tb testBatch) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, delta)
	body = binary.AppendVarint(body, delta)
	if tb.manyKeys {
		n := tb.fill + byte(delta)
		body = append(binary.AppendVarint(body, 2), 'k', 'a'+n%6)
		if n%5 == 0 {
			body = binary.AppendVarint(body, -1)
			body = binary.AppendVarint(body, 0)
			return append(binary.AppendVarint(dst, int64(len(body))), body...)
		}
	} else if tb.noKey {
		body = binary.AppendVarint(body, -1)
	} else {
		body = append(binary.AppendVarint(body, 1), 'k')
	}
	value := make([]byte, tb.valueBytes)
	for i := range value {
		value[i] = tb.fill
	}
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = binary.AppendVarint(body, 0)
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

// testOptions are small sizes on a memory disk.
func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "/data", WALFileBytes: 64 << 10, WALFiles: 6, TailBytes: 256 << 10, RoundBytes: 16 << 10, RetentionInterval: -1}
}

func mustOpen(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(testOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commitAll commits until nothing waits and runs the completions.
func commitAll(t testing.TB, s *Store) {
	t.Helper()
	for {
		completions, err := s.Commit(testNow)
		if err != nil {
			t.Fatal(err)
		}
		for _, done := range completions {
			done()
		}
		if !s.waiting() && len(completions) == 0 {
			return
		}
	}
}

func testID(n byte) LogID { return LogID{Topic: [16]byte{n}, Partition: int32(n)} }
