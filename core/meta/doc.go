// Package meta is the cluster's metadata: which brokers, topics, partitions, topic configs and producer ids there are.
//
// The central types are [Image], a value that [Image.Apply] changes by one [Command] at a time and by nothing else,
// and [Quorum], one member of the raft group that agrees on commands, keeps them in the log __cluster_metadata and applies
// them in order. One node alone is such a group too. Callers know Propose and View; who connects nodes gives the Quorum time (Tick)
// and what peers sent (Step). Identity is who a data folder is, for folders that form or join a cluster.
//
// Invariants:
//
//  1. The image is a function of the log: applying the log's commands from the first to the last gives it, on every
//     node, at every start. Apply reads no clock, no randomness, no disk.
//  2. A command is applied only when the group has agreed on it and it is durable here; Propose's done runs after that.
//  3. A command that can't be applied (the topic exists already) changes nothing, on every node alike; its error is
//     the proposer's answer.
//  4. Topics are immutable once they are in an image: a change puts a new value in the old one's place, so a *Topic
//     that was seen may be kept.
//  5. Entry i of raft is the record at offset i-2, alone in its batch, whose leader epoch is the entry's term-1 (raftlog.go).
//  6. What this node says (a vote, that it has an entry) is said after the disk has it, and all that came before it.
//  7. The log begins with a snapshot, which is commands too; what lies before it nobody needs (snapshot.go, base in identity.go).
//  8. An id of a node is one data folder's for ever: a folder that was wiped is not the voter that it was.
//
// No goroutine, no clock: time comes in as an argument. raft draws its election timeouts from crypto/rand.
//
// Neighbours: storage below (one Log, the hard state), core above. Formats: command.go, raftlog.go, identity.go.
package meta
