// Package record writes the record batches that the broker itself appends: metadata commands, group offsets.
//
// The central functions are [AppendBatch] and [Scan]. Batches are Kafka's v2, uncompressed, with their CRC; base offset and leader
// epoch are left for the log to patch. It is a leaf: it imports nothing of ours.
//
// Invariants: a batch that AppendBatch wrote is read back by Scan record for record; Scan reads no byte outside what it is
// given, whatever it holds.
//
// Neighbours: core and core/meta above; its reader is (*storage.Log).Read.
package record
