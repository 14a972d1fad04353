package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weirlog/weir/storage/vfs"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

const (
	testSalt       = 0x0123456789abcdef
	testGeneration = 7
)

// goldenFrames is one frame of each kind.
func goldenFrames() []frame {
	id := LogID{Topic: [16]byte{1, 2, 3}, Partition: 4}
	return []frame{
		{kind: frameCreate, id: id, number: 9, seq: 1, body: []byte("orders-4")},
		{kind: frameAppend, id: id, number: 9, seq: 2, nowMs: 1700000000000, file: 1, base: 0, epoch: 5, body: testBatch{records: 2, valueBytes: 5, fill: 'x', epoch: 5, timestamp: 1000}.build()},
		{kind: frameDirect, id: id, number: 9, seq: 4, prevEnd: 2, nowMs: 1700000000001, file: 1, place: 89, bytes: 300, crc: 0xdeadbeef, batches: 2},
		{kind: frameTruncate, id: id, number: 9, seq: 5, prevEnd: 9, file: 1, place: 89, end: 2, nextFile: 2},
		{kind: frameStart, id: id, number: 9, seq: 6, prevEnd: 2, end: 1},
		{kind: frameDrop, id: id, number: 9, seq: 7, prevEnd: 2},
		{kind: frameHardState, body: []byte("term 3 vote 1")},
		{kind: frameCompact, id: id, number: 9, seq: 8, prevEnd: 2, nowMs: 1700000000002, file: 3, place: 1700000003000, end: 40,
			body: appendSegments(nil, []segment{{1, 2, 0, 20, 1000, 1700000000000, 1700000000500}})},
		{kind: frameRestart, id: id, number: 9, seq: 9, prevEnd: 40, end: 7},
	}
}

// undump is the inverse of hex.Dump.
func undump(t *testing.T, dump string) (data []byte) {
	t.Helper()
	for line := range strings.Lines(dump) {
		digits, _, _ := strings.Cut(line[8:], "|")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, b...)
	}
	return data
}

// encodeRound is a sealed round with the frames.
func encodeRound(number, synced Ticket, frames []frame) []byte {
	r := &round{number: number, alignBytes: blockBytes}
	for i := range frames {
		r.add(&frames[i])
	}
	r.finish(testGeneration, synced, testSalt)
	return bytes.Join(r.chunks, nil)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name + ".hex"
	text := hex.Dump(got)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s has changed on disk; before a release a format changes with its golden file, in one commit that says why\n%s", name, text)
	}
}

func TestGoldenRound(t *testing.T) {
	data := encodeRound(12, 11, goldenFrames())
	if len(data)%blockBytes != 0 {
		t.Fatalf("a round of %d bytes", len(data))
	}
	golden(t, "round", data[:1024])
	h, ok := parseRoundHeader(data, testSalt)
	if !ok || h.round != 12 || h.synced != 11 || h.generation != testGeneration || h.frames != 9 {
		t.Fatalf("header %+v, %v", h, ok)
	}
	if _, ok := parseRoundHeader(data, testSalt+1); ok {
		t.Fatal("another store's salt is believed")
	}
	frames := data[roundHeaderBytes : roundHeaderBytes+h.bytes]
	if !checkFrames(frames, data[roundHeaderBytes+h.bytes:], testSalt) {
		t.Fatal("crc does not match")
	}
	for _, want := range goldenFrames() {
		var got frame
		var err error
		if got, frames, err = parseFrame(frames); err != nil {
			t.Fatal(err)
		}
		want.base, want.epoch = 0, 0
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}

// goldenLog has one of everything that an entry holds.
func goldenLog() *Log {
	l := &Log{store: &Store{}, id: LogID{Topic: [16]byte{1, 2, 3}, Partition: 4}, name: "orders-4", number: 9, seq: 77, start: 5, end: 40, nextFile: 4, closed: true,
		segments: []segment{{1, 2, 0, 20, 1000, 1700000000000, 1700000000500}, {3, 0, 22, 40, 2000, 1700000001000, -1}}, cleaned: 20, horizonMs: 1700000003000,
		epochs: epochCache{{2, 5}, {4, 30}}}
	l.producer = producerTable{}
	b := Batch(testBatch{base: 30, producer: 8, producerEpoch: 1, sequence: 100, records: 3, timestamp: 1000}.build())
	l.producer.apply(b, 1700000002000, 0)
	return l
}

func goldenCheckpoint() []byte {
	head := checkpointHead{salt: testSalt, generation: testGeneration, round: 12, nextNumber: 10, hardState: []byte("term 3")}
	return encodeCheckpoint(head, map[uint64][]byte{9: goldenLog().appendEntry(nil)})
}

func TestGoldenCheckpoint(t *testing.T) {
	data := goldenCheckpoint()
	golden(t, "checkpoint", data)
	head, entries, version, err := decodeCheckpoint(data)
	if err != nil || head.round != 12 || string(head.hardState) != "term 3" || len(entries) != 1 || version != 2 {
		t.Fatalf("%+v, %d entries, %v", head, len(entries), err)
	}
	l := &Log{store: &Store{}}
	if err := l.decodeEntry(entries[0], version); err != nil {
		t.Fatal(err)
	}
	if again := l.appendEntry(nil); !bytes.Equal(again, entries[0]) {
		t.Fatal("an entry does not survive decoding and encoding")
	}
	for i := range data {
		broken := append([]byte(nil), data...)
		broken[i] ^= 0x10
		if _, _, _, err := decodeCheckpoint(broken); err == nil {
			t.Fatalf("a flipped bit in byte %d is not noticed", i)
		}
	}
}

// TestOldCheckpoint reads version 1, as it was written before there was compaction.
func TestOldCheckpoint(t *testing.T) {
	dump, err := os.ReadFile("testdata/checkpoint-v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	data := undump(t, string(dump))
	_, entries, version, err := decodeCheckpoint(data)
	if err != nil || version != 1 || len(entries) != 1 {
		t.Fatalf("version %d, %d entries, %v", version, len(entries), err)
	}
	got, want := &Log{store: &Store{}}, goldenLog()
	if err := got.decodeEntry(entries[0], version); err != nil {
		t.Fatal(err)
	}
	want.cleaned, want.horizonMs, want.segments[0].version = 0, 0, 0
	if !bytes.Equal(got.appendEntry(nil), want.appendEntry(nil)) {
		t.Fatalf("read as %+v", got)
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(goldenCheckpoint())
	f.Add(goldenLog().appendEntry(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4 { // let mutations through to the decoder
			body := data[:len(data)-4]
			data = append(append([]byte(nil), body...), 0, 0, 0, 0)
			sum := crc32.Checksum(body, castagnoli)
			data[len(body)], data[len(body)+1], data[len(body)+2], data[len(body)+3] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
		}
		_, entries, _, err := decodeCheckpoint(data)
		if err == nil {
			data = nil
			for _, e := range entries {
				data = append(data, e...)
			}
		}
		l := &Log{store: &Store{}}
		if err := l.decodeEntry(data, checkpointVersion); err == nil && !bytes.Equal(l.appendEntry(nil), data) && len(l.producer) == 0 {
			t.Fatal("an entry was accepted that is not its own encoding")
		}
	})
}

// walStore is a disk with a store whose write-ahead file begins with data, under a known salt and generation.
func walStore(t testing.TB, data []byte) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	for _, dir := range []string{"/data/wal", "/data/logs"} {
		if err := disk.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	head := checkpointHead{salt: testSalt, generation: testGeneration, round: 4, nextNumber: 1}
	if err := vfs.WriteAtomic(disk, "/data/checkpoint", encodeCheckpoint(head, nil)); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Create("/data/wal/00000001.wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ZeroFill(0, 64<<10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncFS("/"); err != nil {
		t.Fatal(err)
	}
	return disk
}

// FuzzWAL opens a store over arbitrary write-ahead bytes: an error or a store that works and opens again, never a panic. Frames are
// also wrapped in a valid round, so that mutations reach the replay.
func FuzzWAL(f *testing.F) {
	f.Add(encodeRound(5, 4, goldenFrames()[:2]), false)
	plain := encodeRound(5, 4, goldenFrames())
	f.Add(plain[roundHeaderBytes:900], true)
	f.Fuzz(func(t *testing.T, data []byte, wrap bool) {
		if wrap {
			r := &round{number: 5, alignBytes: blockBytes}
			copy(r.reserve(len(data)), data)
			r.bytes, r.frames = int64(len(data)), 1
			r.finish(testGeneration, 4, testSalt)
			data = bytes.Join(r.chunks, nil)
		}
		disk := walStore(t, data)
		s, err := Open(testOptions(disk))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		for _, id := range s.Logs() {
			l := s.Log(id)
			if _, err := l.Read(l.StartOffset(), l.EndOffset(), 1<<20, nil); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("read: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := mustOpen(t, disk).Close(); err != nil {
			t.Fatalf("close again: %v", err)
		}
	})
}

// TestDirectFrames replays bytes that were written straight to a segment: as long as nothing says that their round was synced, the round
// is torn without them; else they are damage in the segment.
func TestDirectFrames(t *testing.T) {
	id := testID(1)
	first := testBatch{valueBytes: 10, fill: 'a'}.build()
	direct := append(testBatch{base: 1, records: 2, valueBytes: 30, fill: 'b'}.build(), testBatch{base: 3, valueBytes: 300, fill: 'c', producer: 5, epoch: 2}.build()...)
	last := testBatch{base: 4, valueBytes: 10, fill: 'd', epoch: 2}.build()
	place := int64(len(first))
	create := frame{kind: frameCreate, id: id, number: 1, seq: 1, body: []byte("a-0")}
	frames := []frame{
		{kind: frameAppend, id: id, number: 1, seq: 2, file: 1, body: first},
		{kind: frameDirect, id: id, number: 1, seq: 4, prevEnd: 1, file: 1, place: place, bytes: uint32(len(direct)), crc: crc32.Checksum(direct, castagnoli), batches: 2},
		{kind: frameAppend, id: id, number: 1, seq: 5, prevEnd: 4, file: 1, place: place + int64(len(direct)), body: last},
	}
	other := frame{kind: frameCreate, id: testID(2), number: 2, seq: 1, body: []byte("b-0")}
	tests := []struct {
		name    string
		bytes   []byte
		isOlder bool // a later round proves that the frames were synced
		wantEnd int64
		damage  bool
	}{
		{"as the frame says", direct, false, 5, false},
		{"as the frame says, synced", direct, true, 5, false},
		{"not all there", direct[:len(direct)-1], false, 0, false},
		{"other bytes", bytes.Repeat([]byte{0}, len(direct)), false, 0, false},
		{"not there", nil, false, 0, false},
		{"other bytes, synced", bytes.Repeat([]byte{0}, len(direct)), true, 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wal := append(encodeRound(5, 4, []frame{create}), encodeRound(6, 5, append(append([]frame(nil), frames...), other))...)
			if test.isOlder {
				wal = append(wal, encodeRound(7, 6, []frame{{kind: frameHardState}})...)
			}
			disk := walStore(t, wal)
			if test.bytes != nil {
				writeSegment(t, disk, test.bytes, place)
			}
			s, err := Open(testOptions(disk))
			if damage := (*CorruptError)(nil); test.damage {
				if !errors.As(err, &damage) || !strings.HasSuffix(damage.Path, "-1.log") || damage.PlaceBytes != place {
					t.Fatalf("open: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if isWhole := test.wantEnd > 0; (s.Log(testID(2)) != nil) != isWhole {
				t.Fatalf("the round's frames of another log are there: %v", !isWhole)
			}
			var want []byte
			if test.wantEnd == 5 {
				want = append(append(append([]byte(nil), first...), direct...), last...)
			}
			l := s.Log(id)
			if l.EndOffset() != test.wantEnd || !bytes.Equal(readAll(t, l), want) {
				t.Fatalf("log ends at %d, want %d", l.EndOffset(), test.wantEnd)
			}
			if test.wantEnd == 5 && (l.LeaderEpoch() != 2 || l.producer[5] == nil) {
				t.Fatalf("epoch %d, producers %v: not learnt from direct bytes", l.LeaderEpoch(), l.producer)
			}
			if _, err := l.Append(testBatch{}.build(), 3, testNow); err != nil {
				t.Fatal(err)
			}
			commitAll(t, s)
			s = mustOpen(t, disk.CrashClone(rand.New(rand.NewPCG(1, 1))))
			if got := s.Log(id).EndOffset(); got != test.wantEnd+1 {
				t.Fatalf("after another start the log ends at %d", got)
			}
		})
	}
}

func writeSegment(t *testing.T, disk *vfs.Mem, data []byte, place int64) {
	t.Helper()
	dir := "/data/logs/0000000001-a-0"
	if err := disk.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Create(dir + "/" + (&segment{file: 1}).fileName())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, place); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncFS("/"); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsReportAllFaults(t *testing.T) {
	_, err := Open(Options{FS: vfs.NewMem(), WALFileBytes: 5000, WALFiles: 1, Sync: 9})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"data folder", "file size 5000", "files 1", "sync mode 9"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
