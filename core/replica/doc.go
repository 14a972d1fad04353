// Package replica is one replica of one partition: a storage.Log with what the metadata says about it, a high watermark, and
// those who wait for offsets.
//
// The central type is [Partition]. [Partition.Assign] is the only way in which it learns of the metadata, and makes it a leader or a follower. A
// leader's appends return at once with their offsets; their completion comes when the bytes are durable here (acks=1) or when the high watermark has
// passed them (acks=all). A follower asks (Ask) and takes (Take); its leader learns from what it asks for (Fetched) how far it is. With one
// replica the high watermark is the log's durable end. [Fetcher] decides what a node asks one leader for, about all partitions.
//
// Invariants:
//
//  1. The high watermark is at most the least durable end of the in-sync set, together with those whom a wish under way would add; on a node it
//     goes back only with a log that was cut below it (an unclean election).
//  2. Every append's done and every watcher's fire is called at most once, with no lock held.
//  3. Closing a partition, or no longer leading it, answers everyone who waits.
//  4. No goroutine, no clock, no randomness: time comes in as an argument.
//  5. A follower's ends count only if its log agrees with the leader's, by leader epochs, up to where it asks. It cuts only what the leader says it
//     doesn't have, never by its own high watermark, and never for an answer about a log that is no more.
//  6. Whom the metadata may make the leader has all that was acknowledged: a member joins with all below the high watermark and the
//     epoch's start, and a wish is given up only when it was refused.
//
// Neighbours: storage below, core above.
package replica
