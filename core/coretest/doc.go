// Package coretest steps whole clusters of brokers on one goroutine: memory disks, a memory network, clients that retry as real ones do, faults, and
// a checker of what was promised. Everything comes of a seed, so a run that fails can be run again.
//
// Run is the whole of it: a cluster is made, clients work while faults come, the faults end, the cluster must become one, and what is there is compared
// with what was acknowledged and read; that several times.
//
// Invariants that are checked:
//  1. A record that was acknowledged by acks=all is there at its offset, for ever.
//  2. An idempotent producer's records are there once and in order, whatever was sent again.
//  3. What was below a leader's high watermark once, or was read by a consumer, never changes; no two replicas differ below it.
//  4. A leader epoch has one leader, and a term of the metadata's group too; a leader's high watermark never goes back, and the end that clients are
//     told never goes back from one epoch to the next.
//  5. An offset that a group has committed is never older after others have taken over.
//  6. A topic whose creation was acknowledged is there, on every node.
//  7. When the faults end, everything works again in bounded time.
//
// Faults: loss of power with loss and tearing of what was not synced, of one node and of all; kill -9; pauses; links cut in one direction or both, slow
// and reset; disks that hang, or fail a sync; clocks that jump. A disk keeps what it has synced: no promise holds beyond that.
//
// Neighbours: core, whose Broker is stepped (Step, Handle, Store), and whose Faults are mutations that a run must find.
package coretest
