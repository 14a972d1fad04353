// Package mysql is the source that reads a MySQL or MariaDB server: a consistent snapshot of its tables, then every
// committed change by the binlog, as Debezium's events under Debezium's keys, topic names, offsets and schema history.
//
// The central type is the task (source.go): a state machine that every Poll steps on: recover the schema history, read the
// tables, stream. DESIGN.md beside this file tells why it converges after a kill at any point. One package serves both
// servers: the connector's dialect is a value.
//
// Invariants:
//
//  1. An event's identity is (transaction, event, row): the offset counts what of the transaction behind its restart point
//     is done. A transaction under way is never counted as done.
//  2. A statement that changes a structure is durable in the schema history before any row decoded with the new structure
//     is returned.
//  3. Any error drops the connections; the task then goes on behind the last position that a Poll returned.
//  4. A row is decoded by the structure of its time: the names and types that its table map event tells, where it tells
//     them, else the history's. Never by what the server says now.
//  5. A snapshot and the stream give the same value for the same datum.
//  6. What a batch's records point to is used again by the next Poll; offsets and marks are not.
//
// Neighbours: connectors/mysql/binlog reads the stream, connectors/mysql/value decodes, connectors/mysql/schema holds
// structures and their history; connectors/debezium is shared with the other sources; core/kafka reaches the history topic.
package mysql
