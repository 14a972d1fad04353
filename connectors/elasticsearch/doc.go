// Package elasticsearch writes records as documents of Elasticsearch or OpenSearch, with the keys of Confluent's sink, and
// of Aiven's for OpenSearch.
//
// The central type is bulker: a few lanes, each with a queue and at most one bulk request on its way. A document's id
// decides its lane.
//
// Invariants:
//
//  1. Operations on one id reach the server in the order of their offsets: they share a lane, a lane sends one request at
//     a time, and what is to be repeated goes back before all that came later. An id that failed holds up no other id.
//  2. Only operations that failed are repeated; a whole request only when none of it was answered.
//  3. With ids made from keys every operation, deletes too, carries the record's offset as external version, so a replay
//     changes nothing: the server's answer to an older version, a conflict, is success. The gauge version_conflicts counts.
//  4. A partition's offset is answered as durable when every record before it was indexed, deleted, left out by
//     configuration, or rejected.
//  5. Bodies that are queued or on their way are bounded by the task's memory; a target that is away fills that bound,
//     and then calls answer Retry until it is back.
//
// What versions cost: when an index is deleted and a connector replays nothing, or a topic is made anew and its offsets
// start at zero under ids that the index has, older versions are refused and only the gauge shows it. Delete the index
// with the topic, or name the version's source by external.version.header.
//
// Ids: a key's string or number is its text. A key of several fields is its values in the order of the fields' names,
// joined by "+", with "%" and "+" in them written as %25 and %2B and null as %00; one of one field is that field's text.
//
// Goroutines: a task runs one per lane, from opening to Close, which waits for them.
//
// Neighbours: connect is the contract; connect/worker repeats, buries and commits. It imports only connect.
package elasticsearch
