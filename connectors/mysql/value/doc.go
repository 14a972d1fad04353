// Package value turns the bytes of MySQL's and MariaDB's columns into [connect.Value]s as Debezium has them.
//
// Central type: [Codec], one column's decoder under one configuration. It knows both forms in which a server gives a
// value: the binlog's row image ([Codec.Binlog]) and the text of a result set ([Codec.Text]). A [Plan] is the codecs of a
// table map in their order; it decodes row images.
//
// Invariants:
//  1. A value is the same whichever form it came in. A snapshot and the stream can't be told apart by their values.
//     Where the server's text says less than its storage (FLOAT), [Codec.Select] asks for an expression that says all.
//  2. A column that is absent from a row image is not null: [Plan.Row] leaves its place alone.
//  3. No input panics or reads beyond its end; what can't be decoded is an error that names the column.
//  4. Values share the input's memory and the arena's; nothing is allocated for a number, a date or a text in UTF-8.
//
// The package is pure: no connection, no clock, no goroutine.
package value
