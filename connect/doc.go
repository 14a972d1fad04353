// Package connect is the contract between weir's worker and the connectors it runs.
//
// The central type is [Connector]: a struct of functions that opens a [SourceTask] (reads a foreign system into the log)
// or a [SinkTask] (writes records of the log into a foreign system). Everything else is vocabulary: [Record], [Data],
// [Value], [Schema], [OffsetMap], [Config], [Field], and the closed list of error kinds ([Retry], [BadRecord], [BadConfig]).
//
// Invariants that every implementation and every user keeps:
//
//  1. A batch is a plain slice and a plain call; there is no goroutine, channel or callback per record.
//  2. Who receives a slice of records may read it until the call returns (sinks) or until its next Poll (the worker);
//     who needs it longer copies it.
//  3. A source offset is committed upstream only after every record before its mark is done: written and durable in the
//     log, filtered, skipped or dead-lettered. A source never waits for its own Commit.
//  4. A sink's records keep their origin (topic, partition, offset as read) under every transform; Assign, Revoke, Flush
//     and rejections speak of origins only.
//  5. A connector knows no wire format: converters and transforms run in the worker.
//  6. A nil function means "does not have it", and the plugin manifest carries which are present, so nothing vanishes
//     when the same connector runs in another process.
//
// The packed form (pack.go) is how records cross a process border: one bytes field holding a schema table and rows.
//
// Neighbours: connectors/* implement this package, connect/worker drives it, connect/connecttest proves it on any
// connector, connect/convert and connect/transform work on its records. It imports nothing of weir's.
package connect
