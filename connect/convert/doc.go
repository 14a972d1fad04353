// Package convert turns the data of records into the bytes of the log and back, as Kafka Connect's converters do.
//
// The central type is [Converter]: made by [New] from a converter's class (the Java class that people have in their
// configurations, its simple name, or a short name) and its properties, one per task and role. [HeaderConverter] is the
// same for header values, made by [NewHeader]; [Classes] lists what there is.
//
// Invariants:
//
//  1. Bytes are those that the Java converter of the same class writes for the same data; testdata holds answers of the
//     Java classes, recorded, and the tests compare with them.
//  2. An encoder is compiled once per *connect.Schema and found again by the pointer. The number of compiled encoders and
//     of parsed schemas is bounded, so a source that makes a schema per record costs time, never memory.
//  3. Encoding an event whose schema is known allocates nothing but the growth of the caller's buffer.
//  4. Decoders take hostile bytes: nesting, sizes of numbers and memory are bounded, nothing panics.
//  5. Decoded data shares no memory with the bytes it came from, but strings may share one copy of them.
//
// Neighbours: connect defines the data; connect/worker calls Encode for sources and wraps what it reads with
// [Converter.Codec] for sinks. It imports only connect.
package convert
