// Package transform changes records between a connector and the log, one record in and at most one out: Kafka Connect's
// single message transforms (SMTs) and predicates, and Debezium's ExtractNewRecordState.
//
// The central type is [Chain], made by [New] from a connector's configuration (transforms, transforms.X.*, predicates,
// predicates.X.*) and applied in place to each record.
//
// Invariants:
//
//  1. A transform answers to the Java class that people have in their configurations, reads the same keys and gives the
//     same record; testdata holds answers of the Java classes, recorded.
//  2. A record's origin and its source index are left alone.
//  3. A schema that a transform derives is made once per input *connect.Schema and handed out again by the pointer, so the
//     converters' compiled encoders are found again. The number of kept schemas is bounded.
//  4. A record is decoded only when a transform asks for its key or value: a chain that only routes passes bytes through.
//  5. The values of the record that came in are never written to; changed lists are copies.
//
// Neighbours: connect defines the records; connect/worker applies the chain. It imports only connect.
package transform
