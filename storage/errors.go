package storage

import (
	"errors"
	"fmt"
)

// Sentinels. Every error of the package wraps at most one of them; core maps them in one function.
var (
	// ErrCorruptBatch: not one whole v2 batch, or its CRC does not match (CORRUPT_MESSAGE).
	ErrCorruptBatch = errors.New("corrupt batch")
	// ErrInvalidBatch: a well-formed batch that a client may not send (INVALID_RECORD).
	ErrInvalidBatch = errors.New("invalid batch")
	// ErrInvalidTimestamp: a timestamp outside the log's limits (INVALID_TIMESTAMP).
	ErrInvalidTimestamp = errors.New("timestamp out of range")
	// ErrNoKey: a record without a key for a compacted log (INVALID_RECORD).
	ErrNoKey = errors.New("record without a key in a compacted log")
	// ErrTooLarge: the batch is over MaxMessageBytes or fits no round (MESSAGE_TOO_LARGE).
	ErrTooLarge = errors.New("batch too large")
	// ErrOutOfOrderSequence: an idempotent producer's sequence is not the next one (OUT_OF_ORDER_SEQUENCE_NUMBER).
	ErrOutOfOrderSequence = errors.New("out of order sequence")
	// ErrProducerFenced: the producer's epoch is older than one already seen (INVALID_PRODUCER_EPOCH).
	ErrProducerFenced = errors.New("producer epoch is fenced")
	// ErrOffsetOutOfRange: the offset lies outside [start, end] (OFFSET_OUT_OF_RANGE); for AppendAt, below the end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrStaleEpoch: a batch of an older leader epoch than the log already holds (FENCED_LEADER_EPOCH).
	ErrStaleEpoch = errors.New("leader epoch is older than the log's")
	// ErrDiskFull: no space could be reserved; nothing was taken, and the log works again once there is space.
	ErrDiskFull = errors.New("disk is full")
	// ErrBusy: tail memory or the write-ahead log is used up until the next flush; wait for Room.
	ErrBusy = errors.New("storage is busy: waiting for a flush")
	// ErrDropped: the log was dropped.
	ErrDropped = errors.New("log was dropped")
	// ErrStoreFailed: a write or sync failed, the store accepts nothing more; a restart replays.
	ErrStoreFailed = errors.New("store has failed")
	// ErrStoreClosed: Close was called.
	ErrStoreClosed = errors.New("store is closed")
	// ErrCorrupt: bytes on disk are not what was written; see CorruptError.
	ErrCorrupt = errors.New("corruption on disk")
)

// CorruptError names the place of damage on disk. It wraps ErrCorrupt.
type CorruptError struct {
	Path       string // file
	PlaceBytes int64  // byte position in the file
	Cause      string
}

// Error says file, place and cause.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corruption in %s at byte %d: %s", e.Path, e.PlaceBytes, e.Cause)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
