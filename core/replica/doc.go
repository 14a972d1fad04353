// Package replica is one partition as its leader sees it: a storage.Log with a leader epoch, a high watermark, and
// those who wait for offsets.
//
// The central type is [Partition]. Appends return at once with their offsets; their completion comes when the bytes
// are durable (acks=1) or when the high watermark has passed them (acks=all). With one replica both are the same
// event: the high watermark is the log's durable end.
//
// Invariants:
//
//  1. The high watermark never goes back and never passes the durable end.
//  2. Every append's done and every watcher's fire is called at most once, with no lock held.
//  3. Closing a partition answers everyone who waits, with the error it was closed with.
//  4. No goroutine, no clock, no randomness: time comes in as an argument.
//
// Neighbours: storage below, core above.
package replica
