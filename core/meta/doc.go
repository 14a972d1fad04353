// Package meta is the cluster's metadata: which brokers, topics, partitions, topic configs and producer ids there are.
//
// The central types are [Image], a value that [Image.Apply] changes by one [Command] at a time and by nothing else,
// and [Quorum], which makes commands durable in the log __cluster_metadata and applies them in order. Callers know
// only Propose and View, so that a raft group can drive the log without them noticing.
//
// Invariants:
//
//  1. The image is a function of the log: applying the log's commands from the first to the last gives it, on every
//     node, at every start. Apply reads no clock, no randomness, no disk.
//  2. A command is applied only when it is durable; Propose's done runs after that.
//  3. A command that can't be applied (the topic exists already) changes nothing, on every node alike; its error is
//     the proposer's answer.
//  4. Topics are immutable once they are in an image: a change puts a new value in the old one's place, so a *Topic
//     that was seen may be kept.
//  5. Entry i of the log is the record at offset i; its batch's leader epoch is the term.
//
// Neighbours: storage below (one Log), core above. Format: command.go.
package meta
