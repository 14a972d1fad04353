// Package worker runs connectors: it is the Kafka Connect compatible worker.
//
// The central type is [Worker]. It is a member of its group of workers (member.go, membership.go; CLUSTER.md tells the whole)
// and runs its share of their connectors and tasks while it is one; everything it does it does because it read it back from
// the config topic, which the group's leader alone writes. The group shares three compacted topics (config, offsets, status:
// see table.go); a herder turns their content and the share into running connectors and tasks (herder.go, slot.go), and per
// task there is a source or a sink loop (source.go, sink.go) with its ledger, tolerance and dead letters.
//
// Invariants:
//
//  1. Durable before commit: a source's Commit follows the durable write of its offsets, which follows the durable write
//     of every record before the mark (ledger.go); a sink's commit follows the durable write of its dead letters.
//  2. A source never waits for its own Commit, nor the control plane for a connector: reads are served from snapshots.
//  3. Per task: in = out + filtered + dead-lettered + skipped (counted in stats.go).
//  4. What a task holds is bounded by connect.task.memory.
//  5. A secret given by a provider lives in the task that needs it and in no topic, answer or log.
//  6. Of the workers of one group, weir's and Java's, at most one runs a connector or a task, at most one leads, and what runs
//     nowhere else is written by who is a member for certain.
//  7. One connector's fault is its own: unknown classes, refused keys, panics and errors make that connector or task
//     FAILED with the reason, and nothing else.
//
// Formats, lock order and the decisions with their losers are in DESIGN.md beside this file.
//
// Neighbours: connect is the contract it drives, convert, transform and provider are what it puts between a connector and
// the log, core/kafka opens its clients; connect/rest and cmd are its users.
package worker
