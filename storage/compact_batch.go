package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// records is every record of the batch, as Walk gives them.
func (b Batch) records() (all []Record, err error) {
	err = b.Walk(func(r Record) error {
		all = append(all, r)
		return nil
	})
	return all, err
}

// compactBatch is what stays of a batch: the batch itself, a smaller one, or nil. Batches of markers and such that can't be read stay.
func (c *compaction) compactBatch(b Batch, ordinal *int) (Batch, error) {
	if b.IsControl() {
		return b, nil
	}
	records, err := b.records()
	if err != nil {
		return b, nil //nolint:nilerr // it stays as it is
	}
	horizon := int64(0)
	if b.Attributes()&attrDeleteHorizon != 0 {
		horizon = b.BaseTimestamp()
	}
	kept := make([]Record, 0, len(records))
	hasTombstone := false
	for i := range records {
		r := &records[i]
		isGone := r.Key != nil && c.keys.isSuperseded(r.Key, b.BaseOffset()+int64(r.OffsetDelta), *ordinal)
		*ordinal++
		isTombstone := r.Key != nil && r.Value == nil
		if isGone || isTombstone && horizon > 0 && c.now.UnixMilli() >= horizon {
			continue
		}
		hasTombstone = hasTombstone || isTombstone
		kept = append(kept, *r)
	}
	if len(kept) == 0 {
		if b.ProducerID() >= 0 && c.last[b.ProducerID()] == (lastSent{b.ProducerEpoch(), addSequence(b.BaseSequence(), b.LastOffsetDelta())}) {
			return b.emptied(), nil
		}
		return nil, nil
	}
	stamp := hasTombstone && horizon == 0
	if stamp {
		horizon = max(1, c.now.Add(c.cfg.DeleteRetention).UnixMilli())
	}
	if hasTombstone && (c.horizonMs == 0 || horizon < c.horizonMs) {
		c.horizonMs = horizon
	}
	if len(kept) == len(records) && !stamp {
		return b, nil
	}
	if !stamp {
		horizon = 0
	}
	return b.withRecords(kept, horizon)
}

// emptied is the batch without its records: what stays of a producer's last one.
func (b Batch) emptied() Batch {
	if b.RecordCount() == 0 {
		return b
	}
	e := append(Batch(nil), b[:HeaderBytes]...)
	be := binary.BigEndian
	be.PutUint32(e[8:], HeaderBytes-lengthStartBytes)
	be.PutUint16(e[21:], uint16(e.Attributes()&^(attrCodecMask|attrDeleteHorizon)))
	be.PutUint64(e[27:], ^uint64(0))
	be.PutUint64(e[35:], ^uint64(0))
	be.PutUint32(e[57:], 0)
	be.PutUint32(e[17:], crc32.Checksum(e[crcStartBytes:], castagnoli))
	return e
}

// withRecords is the batch with only some of its records, at their offsets and times. A horizon above 0 is stamped as KIP-534 has it:
// it is the base that the timestamps count from.
func (b Batch) withRecords(records []Record, horizonMs int64) (Batch, error) {
	base, attributes := b.BaseTimestamp(), b.Attributes()
	if horizonMs > 0 {
		base, attributes = horizonMs, attributes|attrDeleteHorizon
	}
	var plain []byte
	newest := int64(-1)
	for i := range records {
		r := &records[i]
		at := b.BaseTimestamp() + r.TimestampDelta
		newest = max(newest, at)
		plain = appendRecord(plain, r, at-base)
	}
	if attributes&attrLogAppendTime != 0 {
		newest = b.MaxTimestamp()
	}
	body, err := deflate(b.Codec(), plain)
	if err != nil {
		return nil, err
	}
	out := append(make(Batch, 0, HeaderBytes+len(body)), b[:HeaderBytes]...)
	out = append(out, body...)
	be := binary.BigEndian
	be.PutUint32(out[8:], uint32(len(out)-lengthStartBytes))
	be.PutUint16(out[21:], uint16(attributes))
	be.PutUint64(out[27:], uint64(base))
	be.PutUint64(out[35:], uint64(newest))
	be.PutUint32(out[57:], uint32(len(records)))
	be.PutUint32(out[17:], crc32.Checksum(out[crcStartBytes:], castagnoli))
	return out, nil
}

// appendRecord encodes a record with another timestamp delta; see parseRecord.
func appendRecord(dst []byte, r *Record, timestampDelta int64) []byte {
	body := make([]byte, 0, 32+len(r.Key)+len(r.Value)+len(r.Headers))
	body = append(body, 0)
	body = binary.AppendVarint(body, timestampDelta)
	body = binary.AppendVarint(body, int64(r.OffsetDelta))
	for _, field := range [][]byte{r.Key, r.Value} {
		if field == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = append(binary.AppendVarint(body, int64(len(field))), field...)
	}
	body = append(body, r.Headers...)
	return append(binary.AppendVarint(dst, int64(len(body))), body...)
}

// deflate compresses the records part of a batch.
func deflate(codec int, data []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case codecNone:
		return data, nil
	case codecSnappy:
		return s2.EncodeSnappy(nil, data), nil
	case codecGzip:
		w = gzip.NewWriter(&out)
	case codecLZ4:
		w = lz4.NewWriter(&out)
	case codecZstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
		w = z
	default:
		return nil, fmt.Errorf("%w: unknown compression %d", ErrCorruptBatch, codec)
	}
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}
