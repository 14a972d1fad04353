package connect

import "errors"

// Record is one message between a connector and the log.
//
// From a source: Topic, Key, Value, Headers, Timestamp, perhaps Partition, and Source. To a sink: all of it, with Origin.
type Record struct {
	Topic     string
	Partition int32 // the partition to write to, or [AnyPartition]; for a sink where the record was read
	Timestamp int64 // milliseconds since the epoch, or [NoTimestamp]
	Key       Data
	Value     Data
	Headers   []Header

	// Source is the index of the record's source partition in [Batch.Sources].
	Source int
	// Origin is where a sink's record was read; transforms leave it alone.
	Origin Origin
	// LogAppendTime says that Timestamp was set by the broker (sinks only).
	LogAppendTime bool
	// Fault marks a record that the source could not decode; Key and Value may be empty.
	Fault *Fault
	// Raw, if set, is a whole record batch in Kafka's format instead of one record; Key, Value and Headers are empty.
	Raw *Raw
}

// AnyPartition lets the producer choose; NoTimestamp lets the worker set the time of writing.
const (
	AnyPartition int32 = -1
	NoTimestamp  int64 = -1
)

// Header is a record header; its value is encoded by the header converter.
type Header struct {
	Key   string
	Value Data
}

// Origin is a place in the log: topic, partition and offset as read.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Fault says why a source could not decode what it read, and keeps the bytes for a dead-letter topic.
type Fault struct {
	Reason string
	Bytes  []byte
}

// Raw is a record batch (magic 2) as it stands in a log, passed through by a mirror.
type Raw struct {
	Bytes       []byte
	First, Last int64 // source offsets, inclusive
	Count       int   // records in it
}

// Codec names the format of encoded bytes and decodes them. One Codec serves many records; Decode may be called from one
// goroutine at a time.
type Codec struct {
	Format string // "json", "string", "bytes", "avro", …
	Decode func([]byte) (*Schema, Value, error)
}

// Data is a key, a value or a header's value: a [Value] with its [Schema] (nil for none), or bytes of the log which are
// decoded only when somebody asks.
type Data struct {
	schema *Schema
	value  Value
	bytes  []byte
	codec  *Codec

	decoded bool // schema and value are what bytes mean
}

// ErrNotDecoded is wrapped by every error that [Data.Decode] returns.
var ErrNotDecoded = errors.New("cannot decode")

// DataOf makes Data from a value and its schema; the schema is nil for schemaless data.
func DataOf(s *Schema, v Value) Data { return Data{schema: s, value: v} }

// EncodedData makes Data from bytes of the log, which it shares; nil bytes are null.
func EncodedData(b []byte, c *Codec) Data {
	if b == nil {
		return Data{}
	}
	return Data{bytes: b, codec: c}
}

// Decode makes Schema and Value valid. It does nothing for data that is decoded.
func (d *Data) Decode() error {
	if d.codec == nil || d.decoded {
		return nil
	}
	s, v, err := d.codec.Decode(d.bytes)
	if err != nil {
		return errors.Join(ErrNotDecoded, err)
	}
	d.schema, d.value, d.decoded = s, v, true
	return nil
}

// Schema gives the schema, nil for none; encoded data must have been decoded.
func (d *Data) Schema() *Schema { return d.schema }

// Value gives the value; encoded data must have been decoded.
func (d *Data) Value() Value { return d.value }

// Encoded gives the bytes as they were read and their format, while nobody has changed the data; ok is false otherwise.
func (d *Data) Encoded() (b []byte, format string, ok bool) {
	if d.codec == nil {
		return nil, "", false
	}
	return d.bytes, d.codec.Format, true
}

// IsNull reports whether the data is null: a tombstone, where it is a record's value. Encoded data that is not yet
// decoded is not null, though its value may turn out to be.
func (d *Data) IsNull() bool { return d.value.kind == Null && (d.codec == nil || d.decoded) }

// Set replaces the data; encoded bytes are forgotten.
func (d *Data) Set(s *Schema, v Value) { *d = Data{schema: s, value: v} }

// Decode decodes key and value (not headers).
func (r *Record) Decode() error {
	if err := r.Key.Decode(); err != nil {
		return err
	}
	return r.Value.Decode()
}
