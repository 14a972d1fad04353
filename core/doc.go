// Package core is the broker: it listens, decodes, dispatches, and answers the Kafka protocol.
//
// [Form] makes a new data folder that of a node of a cluster; the central type is [Broker]. A request travels: connection reader (frame, header, body by kmsg) ->
// [Broker.Handle] -> the key's handler (api_*.go, one file per API key) -> [replica.Partition] -> [storage.Log];
// its answer comes back through the request's [Done], in any order and on any goroutine, and the
// connection's writer puts it on the wire in the order of the requests.
//
// Invariants:
//
//  1. Nothing below the connection blocks. A handler answers by its Done, now or later; the one thing that may
//     block is a cold read, and it happens in the AppendTo of a fetch answer, on the connection's own writer.
//  2. Every request's Done is called exactly once.
//  3. A produce is answered with success only when its bytes are durable (log.flush=group) or written
//     (log.flush=os); consumers are served nothing at or above the high watermark.
//  4. No record is decoded on the produce path, except the keys of a compacted topic (by storage).
//  5. Memory held by requests, and by what they make until they are answered, is bounded by Config.MemoryBytes: admission
//     blocks a connection's reader; a fetch for whose wait there is no memory doesn't wait.
//  6. Topics, partitions and configs change only by a command that meta has made durable; the broker acts on
//     what the image says, in the order of the commands.
//  7. One of several brokers opens, leads, follows and drops nothing before the group has applied its registration: what it knew before may be
//     older than what it has done (REPLICATION.md, Registering).
//  8. Errors become Kafka error codes in one function, code (errors.go).
//
// Neighbours: core/meta (cluster metadata), core/replica (one partition), core/coord (consumer groups), core/record
// (the broker's own batches), storage (bytes on disk). Nothing but cmd and e2e imports core.
package core
