package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// Batch is a view of one Kafka v2 record batch: its bytes. All integers are big-endian.
//
//	 0 baseOffset i64            23 lastOffsetDelta i32
//	 8 batchLength i32 (from 12) 27 baseTimestamp i64
//	12 partitionLeaderEpoch i32  35 maxTimestamp i64
//	16 magic i8 = 2              43 producerId i64
//	17 crc u32 (CRC-32C, 21–end) 51 producerEpoch i16
//	21 attributes i16            53 baseSequence i32
//	                             57 recordCount i32
//	                             61 records, as the attributes say compressed
//
// Base offset and leader epoch lie before the CRC's range, so a leader sets them in place.
// The accessors want at least HeaderBytes bytes, which ParseBatch has seen to.
type Batch []byte

// HeaderBytes is the size of a batch's header.
const HeaderBytes = 61

const (
	lengthStartBytes = 12 // batchLength counts from here
	crcStartBytes    = 21 // the CRC covers from here
	magicV2          = 2

	attrCodecMask     = 0x07
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// LastOffset is the offset of the last record (inclusive).
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// LeaderEpoch is the epoch of the leader that took the batch.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[12:])) }

// CRC is the checksum stored in the header.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[17:]) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[21:])) }

// Codec is the compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
func (b Batch) Codec() int { return int(b.Attributes() & attrCodecMask) }

// IsControl tells batches of markers from batches of records.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// IsTransactional tells whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[23:])) }

// BaseTimestamp is the timestamp (ms) that the records' deltas count from.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[27:])) }

// MaxTimestamp is the largest timestamp (ms) in the batch, as the producer states it.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[35:])) }

// ProducerID is -1 for a producer without idempotence.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[43:])) }

// ProducerEpoch belongs to ProducerID.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[51:])) }

// BaseSequence is the producer's number of the first record.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[53:])) }

// RecordCount is the number of records, as the header states it.
func (b Batch) RecordCount() int32 { return int32(binary.BigEndian.Uint32(b[57:])) }

// SetBaseOffset and SetLeaderEpoch write in place, outside the CRC's range.
func (b Batch) SetBaseOffset(base int64) { binary.BigEndian.PutUint64(b, uint64(base)) }

// SetLeaderEpoch writes the leader's epoch in place.
func (b Batch) SetLeaderEpoch(epoch int32) { binary.BigEndian.PutUint32(b[12:], uint32(epoch)) }

// setLogAppendTime stamps the batch and renews its CRC.
func (b Batch) setLogAppendTime(nowMs int64) {
	binary.BigEndian.PutUint16(b[21:], uint16(b.Attributes()|attrLogAppendTime))
	binary.BigEndian.PutUint64(b[35:], uint64(nowMs))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[crcStartBytes:], castagnoli))
}

// ParseBatch returns the view of the first batch in data, which may hold more after it. It checks lengths, magic
// and the counts' sanity, not the CRC. Errors wrap ErrCorruptBatch. The view aliases data.
func ParseBatch(data []byte) (Batch, error) {
	if len(data) < HeaderBytes {
		return nil, fmt.Errorf("%w: %d bytes are less than a header", ErrCorruptBatch, len(data))
	}
	if magic := data[16]; magic != magicV2 {
		return nil, fmt.Errorf("%w: magic %d, want 2", ErrCorruptBatch, int8(magic))
	}
	size, err := batchSize(data)
	if err != nil {
		return nil, err
	}
	if size > len(data) {
		return nil, fmt.Errorf("%w: length %d is beyond the %d bytes there are", ErrCorruptBatch, size, len(data))
	}
	b := Batch(data[:size:size])
	if b.LastOffsetDelta() < 0 || b.BaseOffset() < 0 || b.LastOffset() < b.BaseOffset() || b.LastOffset() == math.MaxInt64 || b.RecordCount() < 0 {
		return nil, fmt.Errorf("%w: base offset %d, last offset delta %d, %d records", ErrCorruptBatch, b.BaseOffset(), b.LastOffsetDelta(), b.RecordCount())
	}
	return b, nil
}

// batchSize reads the whole size of the batch whose first 12 bytes are in data.
func batchSize(data []byte) (int, error) {
	length := int32(binary.BigEndian.Uint32(data[8:]))
	if length < HeaderBytes-lengthStartBytes || length > 1<<30 {
		return 0, fmt.Errorf("%w: length %d", ErrCorruptBatch, length)
	}
	return int(length) + lengthStartBytes, nil
}

// CheckCRC compares the stored CRC with the bytes.
func (b Batch) CheckCRC() error {
	if sum := crc32.Checksum(b[crcStartBytes:], castagnoli); sum != b.CRC() {
		return fmt.Errorf("%w: CRC %08x, stored %08x", ErrCorruptBatch, sum, b.CRC())
	}
	return nil
}

// checkClient applies the rules for what a client may send to a log with cfg.
func (b Batch) checkClient(cfg *LogConfig, now time.Time) error {
	switch {
	case b.BaseOffset() != 0:
		return fmt.Errorf("%w: base offset %d, want 0", ErrInvalidBatch, b.BaseOffset())
	case b.RecordCount() <= 0 || b.LastOffsetDelta() != b.RecordCount()-1:
		return fmt.Errorf("%w: %d records with last offset delta %d", ErrInvalidBatch, b.RecordCount(), b.LastOffsetDelta())
	case b.IsControl():
		return fmt.Errorf("%w: a client may not send control batches", ErrInvalidBatch)
	case b.Codec() > codecZstd:
		return fmt.Errorf("%w: unknown compression %d", ErrInvalidBatch, b.Codec())
	case b.ProducerID() >= 0 && (b.BaseSequence() < 0 || b.ProducerEpoch() < 0):
		return fmt.Errorf("%w: producer %d with epoch %d, sequence %d", ErrInvalidBatch, b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	}
	if cfg.TimestampType == CreateTime {
		if err := b.checkTimestamps(cfg, now.UnixMilli()); err != nil {
			return err
		}
	}
	if cfg.Cleanup&CleanupCompact != 0 {
		return b.checkKeys()
	}
	return nil
}

// checkTimestamps looks at the header's two timestamps: no record is decoded for it.
func (b Batch) checkTimestamps(cfg *LogConfig, nowMs int64) error {
	if b.Attributes()&attrLogAppendTime != 0 {
		return fmt.Errorf("%w: a client may not set the log append time", ErrInvalidTimestamp)
	}
	newest, oldest := b.MaxTimestamp(), b.BaseTimestamp()
	if after := cfg.TimestampAfter; after > 0 && newest > nowMs+after.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %s ahead of %d", ErrInvalidTimestamp, newest, after, nowMs)
	}
	if before := cfg.TimestampBefore; before > 0 && oldest >= 0 && oldest < nowMs-before.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %s behind %d", ErrInvalidTimestamp, oldest, before, nowMs)
	}
	return nil
}

// checkKeys walks the records of a batch for a compacted log.
func (b Batch) checkKeys() error {
	return b.Walk(func(r Record) error {
		if r.Key == nil {
			return fmt.Errorf("%w: record %d", ErrNoKey, r.OffsetDelta)
		}
		return nil
	})
}
