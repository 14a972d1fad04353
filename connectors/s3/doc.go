// Package s3 writes records as objects of an S3 bucket, each record in exactly one object: a sink with the keys and the
// object layout of Confluent's.
//
// The central type is partition: the state of one topic-partition, which cuts the run of its records into groups. A group
// becomes one object (one per encoded partition, if the partitioner makes several), named by its first offset:
//
//	<topics.dir>/<topic>/<encoded partition>/<topic>+<partition>+<first offset, 10 digits>.json[.gz]
//
// Invariants:
//
//  1. Where a group ends is known before its object is put, and is found again after a crash. Either it follows from the
//     records alone (flush.size, rotate.interval.ms by the records' own time), or, where the clock has decided
//     (rotate.idle.ms, rotate.schedule.interval.ms, memory), the end is first committed as metadata beside the unchanged
//     offset, "weir-s3:1:<end>", and the object is put only when Flush is told of that commit. So a replay puts the same
//     records under the same key, and the bucket never holds an offset twice.
//  2. Objects of a partition are put in the order of their offsets, and none beyond an end that is not committed yet.
//  3. An offset is answered as durable when the objects of all records before it have been put.
//  4. An object's bytes follow from its records: no time, no host and no random number goes into them.
//  5. Open groups stay in memory up to the task's budget, then in its scratch folder; with no room left in either the largest
//     group is cut early, by the committed path of invariant 1.
//
// The design that lost: closing on wall-clock time and finding overlaps afterwards by conditional writes, as others do.
// It detects that two objects overlap, but can't undo it.
//
// Neighbours: connect is the contract; connect/worker commits what Flush answers. It imports only connect.
package s3
