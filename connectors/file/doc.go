// Package file reads lines of a file into a topic and writes records as lines of a file: Kafka Connect's FileStream
// connectors, and the example that a new connector copies.
//
// The central values are [Source] and [Sink]. A connector is these four things, each in its own file:
//
//   - connector.go: the name, the Java classes it answers to and the configuration keys, as data;
//   - source.go or sink.go: opening a task (which validates what only the foreign system can tell) and its calls;
//   - a test that gives [github.com/weirlog/weir/connect/connecttest] a fresh foreign system and lets it prove the rest;
//   - a line in connectors.All, a sample in configs/connectors and a scenario in e2e.
//
// Invariants:
//
//  1. The source's partition is {"filename": path} and its offset {"position": n}, as Java stores them; n is the byte
//     after the last line that was read. (Java counts characters: the two agree for ASCII.)
//  2. A line is read when its line feed is there: a last line that is still being written waits.
//  3. The sink answers an offset as durable after fsync; what a crash makes it write again is appended again.
//
// Neighbours: connect is the contract; connect/worker runs the tasks. It imports only connect.
package file
