// Package connecttest proves the contract of package connect on any connector.
//
// The central type is [Suite]: a connector with a description of the foreign system it reads or writes. [Run] runs every
// check twice: with records handed over as they are, and with every record taken through connect's packed form, as
// happens when the connector runs in a process of its own.
//
// Invariants:
//
//  1. The suite is the worker: it keeps committed offsets, repeats calls that answer Retry, leaves bad records out, and
//     overwrites a Put's memory as soon as Put has returned.
//  2. A check compares what the foreign system holds with what the suite has put, never two answers of the connector.
//  3. Nothing asserts a speed: a wait ends with its condition, and fails only after [Patience].
//
// Neighbours: the tests of connectors/* call it, package plugins runs it over all connectors. It imports only connect.
package connecttest
