// Package postgres is the source that reads a PostgreSQL database: a consistent snapshot of its tables, then every
// committed change by logical replication (pgoutput), as Debezium's events under Debezium's keys, topic names and offsets.
//
// The central type is the task (source.go): a state machine that every Poll steps on: connect, make the slot, read the
// tables, stream. DESIGN.md beside this file tells why it converges after a kill at any point.
//
// Invariants:
//
//  1. An event's identity is (end of the last complete transaction before it, transaction id, LSN, how many events share
//     that LSN); an LSN alone is never one.
//  2. The slot's confirmed position is taken only from offsets that Commit has told to be durable; it never goes back.
//  3. Any error drops the connections; the task then goes on behind the last position that a Poll returned.
//  4. A snapshot and the stream decode values by the same functions from the server's text form, under the same settings.
//  5. Schemas are handed out by the same pointer until a table's shape changes. What a batch's records point to (frames,
//     values, text) is used again by the next Poll; offsets and marks are not.
//  6. After START_REPLICATION only the status loop writes to the connection and only Poll reads from it.
//
// Neighbours: package connect is the contract; connect/worker drives the task. It imports nothing else of weir's.
package postgres
