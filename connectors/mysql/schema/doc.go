// Package schema knows the structure of MySQL's and MariaDB's tables at every point
// of a binlog: the model, how DDL changes it, and the history that keeps it across
// restarts.
//
// Central type: Table, one version of one table's structure, immutable. A Catalog
// holds the present versions of all tables and moves on by Apply (a statement's
// text) or by Table.Overlay (what a TABLE_MAP event tells about its columns). A
// HistoryRecord is one step of it, in the JSON that Debezium writes to its schema
// history topic, so either can go on from the other's topic.
//
// Invariants:
//  1. A Table that was handed out never changes; who changes one makes a new one.
//  2. A statement that isn't understood is an *UnparsedError and changes nothing, but
//     that its table is Doubtful: rows whose events have names never stop because of a
//     statement's text, and rows without names are never read by a guess.
//  3. Replaying the records that Apply's changes were written to gives an equal
//     Catalog (every record holds whole tables, not only text).
//
// The package is pure: no connection, no clock, no goroutine.
package schema
