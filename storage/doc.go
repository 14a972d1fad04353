// Package storage keeps record batches on disk.
//
// A Store is one data folder: a write-ahead log of preallocated, recycled files that every
// partition shares, a checkpoint, and per partition a folder of segments. A Log is one partition.
// A batch given to (*Log).Append is copied once into the round being gathered, gets its offset,
// and is durable when the round's one sync returned; (*Store).Flush later writes it to its segment
// and lets the write-ahead log be reused. Where a log has much in a round, its batches go to the segment at once, and the round only
// says where they lie (direct.go).
//
// Invariants (tests and comments cite the numbers):
//  1. What a ticket promised is there after any crash: the whole batch, at its offset.
//  2. Nothing is there that was never appended; a round is there as a whole or not at all.
//  3. A segment is written only with bytes whose frames are durable (a compaction's files are durable before the frame
//     that names them), and is cut or removed only after a durable checkpoint no longer names the bytes; on a full disk,
//     where no checkpoint can be written, after the frames that let them go are synced (makeSpace).
//  4. A checkpoint describes each log exactly as of one of its own frames (its sequence number), and
//     is written only after that frame and every byte it names are durable.
//  5. A write-ahead file is reused only after a durable checkpoint covers all its frames.
//  6. A truncation closes the file it cuts: later bytes go to a file with a new number.
//  7. No disk is touched under a log's or the store's mutex, but by Truncate's search for a position.
//  8. The batches in memory are a suffix of their log: a direct write takes along what earlier rounds brought.
//  9. A round is begun when all syncs of the one before have returned: its own, those of its direct writes and of the folders of new
//     files. So only the newest round may be torn, and what is not all there of it is left out whole.
//  10. Until a checkpoint covers its frames, a file that was written directly is neither compacted, cut nor removed.
//
// What a replicated log stands on (a raft log: offset = index, leader epoch = term):
//   - (*Log).AppendAt takes a batch at its own offset and epoch, behind a gap too; (*Log).Append gives the next offset under the caller's epoch.
//   - (*Log).Truncate(end) cuts; (*Log).Restart(start) empties the log and lets it begin anywhere (a replica left behind, a snapshot);
//     (*Log).AdvanceStart(start) lets go what a snapshot covers.
//   - (*Log).EpochAt(offset), EndOfEpoch(epoch), LeaderEpoch: the epoch cache, which recovers with the log.
//   - (*Log).DurableEnd and EndOffset; (*Store).Notify(ticket, done): what is durable here, and when.
//   - (*Store).SetHardState, HardState: one opaque state per store (term, vote, commit). Rounds keep the order of calls and a crash keeps
//     whole rounds, so what is put first is never lost alone: put entries before the state that commits them.
//   - LogConfig.HoldsCleanup with (*Log).SetStableEnd: retention and compaction stay below the high watermark.
//
// (*Store).Compact rewrites the closed segments of compacted logs, off that path (compact.go).
//
// The only goroutines are the three loops of (*Store).Run. Time comes in as an argument.
// DESIGN.md beside this file has the formats, the lock order and the decisions.
//
// Neighbours: storage/vfs below; core/replica and core/meta above.
package storage
