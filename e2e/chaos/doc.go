// Command chaos runs three brokers as real processes in network namespaces of their own, breaks them at random under load, and judges what is left.
//
// It sees the brokers from outside only: chaos.sh makes the namespaces and a script for each node that becomes the broker (weir, or Apache Kafka for
// comparison), and this program, in a namespace of the clients, starts and kills those, cuts links, produces, consumes and checks. The central type is
// history: what clients were told. check compares it with what can be read at the end, with each node gone in turn, by kgo and by kcat.
//
// What counts as a fault of the brokers:
//
//  1. a record that was acknowledged is not at the offset that was told, or is there twice, or records of one producer in one partition are out of order;
//  2. a consumer saw a record that is not there at the end, or its place was another's, or it was told that what it had read is lost;
//  3. a group's offset lies before one whose commit was acknowledged, while the cluster is whole or a while after the commit, or a record was never delivered to the group;
//  4. an epoch of a partition had two leaders;
//  5. a broker ended by itself, or the cluster was not whole again in a minute after the faults had ended.
//
// Invariants: one seed gives one plan of faults (not one run: processes are real); one fault at a time unless the plan says two; nothing is left
// running, and only processes that this program started are signalled.
//
// Neighbours: ../peers and ../services have the scripts that chaos.sh uses, core/coretest does the same in one process with seeds that repeat whole runs.
package main
