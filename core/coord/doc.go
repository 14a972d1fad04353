// Package coord coordinates consumer groups and keeps their committed offsets, as a pure
// step machine.
//
// The central type is Coordinator: the groups of one partition of __consumer_offsets.
// Decoded requests, the passing of time, "batch N is durable" and replayed records go in;
// each step returns Effects: answers to send, record batches to append, and the time of
// the next deadline. The package reads no clock, draws no random number, starts no
// goroutine and touches no disk; who calls it serialises the calls.
//
// Invariants:
//
//  1. Every request given to Handle or Delete is answered exactly once, in this step or in
//     a later one; Close answers what is left.
//  2. An answer that promises something (a committed offset, an assignment, a deletion) is
//     given only after the record that holds it is durable.
//  3. What is durable is applied in the order of the log, whatever order the reports come in.
//  4. Replaying the log gives the committed offsets, the groups, generations, members and
//     assignments that were there when its last record became durable.
//  5. Member metadata and assignments are bytes. Only OffsetDelete looks into them, and only
//     for protocol type "consumer".
//  6. A member that waits for an answer of ours doesn't expire; one that waits for nothing
//     does, by its session timeout.
//
// States of a group:
//
//	Empty ──join──► PreparingRebalance ──all joined, or time is up──► CompletingRebalance
//	  ▲                 ▲        │                                          │
//	  │                 │        └─no member left─► Empty                   │ leader's sync
//	  │                 └──join, leave, expiry──────────── Stable ◄─────────┘ is durable
//	  └──────────────────────── Dead: being deleted; gone when the tombstones are durable
//
// Record formats are Kafka's own (record.go), so that Kafka's tools read the topic.
//
// Neighbours: core feeds it and performs its effects (groups.go there); it imports nothing
// of ours.
package coord
