// Package debezium holds what sources that speak Debezium's language share, whatever database they read: how topics,
// schemas and fields are named, the envelope and the records that a change of a row becomes, the configuration keys that
// mean the same everywhere, heartbeats, and the memory of a batch.
//
// The central type is [Batch]: a source puts changes and resume points into it, and hands it to the worker.
//
// Invariants:
//
//  1. What a batch's records point to (values, text) is used again after [Batch.Release]; marks and offsets are not.
//  2. Schemas are handed out by the same pointer while they are equal ([Common.NewTable]).
//  3. A change of the key is a delete of the old and a create of the new key, each naming the other in its first header.
//  4. Nothing here knows a database: no connection, no type of a server's, no position.
//
// Neighbours: connectors/postgres and connectors/mysql use it; package connect is the contract. It imports nothing else.
package debezium
