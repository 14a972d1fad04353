// Package binlog reads a MySQL or MariaDB server's binlog as a replica does: the transactions in commit order, each
// event with its place, and at any moment the offset from which everything that isn't done yet comes again.
//
// The central type is [Stream]: [Open] connects and asks for the binlog from an [Offset], [Stream.Next] gives the next
// [Event] of a closed set, [Stream.Offset] the restart point behind it. [GTIDSet] is the set of transactions of either
// dialect, [TableMap] a table's shape as the binlog has it, [Classify] the one place that says what an error asks for.
//
// Invariants:
//
//  1. An offset never lies inside a transaction by place alone: file and pos are where the transaction begins (MySQL: its
//     BEGIN, MariaDB: its GTID event), gtids are without it, and event and row count what is done of it, in Debezium's
//     numbers. Behind a transaction, file and pos are its end and gtids include it.
//  2. A transaction's GTID enters the set when its last event is returned, not before: a link that is cut inside a
//     transaction makes it come again.
//  3. event and row are obeyed only when the first transaction begins at the very place that the offset names. On another
//     server its numbering is another's, so the transaction comes whole: never a loss, at most a transaction twice.
//  4. The context of a Next may end at any point and nothing is lost; any other error ends the stream for good.
//  5. What an event points to is valid until the next Next; a [TableMap] is immutable and may be kept. As long as a
//     table's map has the same bytes it is the same pointer.
//  6. Every event's checksum is verified where the server writes any.
//  7. Nothing that the server says is trusted: lengths are checked before they are used, and what can't be right is a
//     Corrupt error that names file and position.
//
// The package starts no goroutine. A Stream is used by one caller at a time; Close may be called beside Next.
//
// Neighbours: connectors/mysql opens streams and makes records of their events; connectors/mysql/value decodes the rows'
// bytes. It knows nothing of either.
package binlog
