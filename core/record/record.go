package record

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// Record is one record to write. Nil and empty keys and values differ: nil is null.
type Record struct {
	Key, Value []byte
}

// headerBytes is the size of a v2 batch's header.
const headerBytes = 61

// AppendBatch appends one batch of records, all with the same timestamp, to dst. There must be at least one record.
//
//	0 base offset i64 | 8 length i32 | 12 leader epoch i32 | 16 magic i8 = 2 | 17 crc u32 | 21 attributes i16
//	23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 = -1
//	51 producer epoch i16 = -1 | 53 base sequence i32 = -1 | 57 count i32 | 61 records
func AppendBatch(dst []byte, records []Record, at time.Time) []byte {
	start := len(dst)
	var header [headerBytes]byte
	h := header[:]
	binary.BigEndian.PutUint32(h[12:], ^uint32(0))
	h[16] = 2
	binary.BigEndian.PutUint32(h[23:], uint32(len(records)-1))
	binary.BigEndian.PutUint64(h[27:], uint64(at.UnixMilli()))
	binary.BigEndian.PutUint64(h[35:], uint64(at.UnixMilli()))
	binary.BigEndian.PutUint64(h[43:], ^uint64(0))
	binary.BigEndian.PutUint16(h[51:], ^uint16(0))
	binary.BigEndian.PutUint32(h[53:], ^uint32(0))
	binary.BigEndian.PutUint32(h[57:], uint32(len(records)))
	dst = append(dst, h...)
	var body []byte
	for i, r := range records {
		body = append(body[:0], 0)                 // attributes
		body = binary.AppendVarint(body, 0)        // timestamp delta
		body = binary.AppendVarint(body, int64(i)) // offset delta
		body = appendBytes(body, r.Key)
		body = appendBytes(body, r.Value)
		body = binary.AppendVarint(body, 0) // headers
		dst = binary.AppendVarint(dst, int64(len(body)))
		dst = append(dst, body...)
	}
	batch := dst[start:]
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return dst
}

// appendBytes appends a length as a zigzag varint, -1 for null, and the bytes.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}
