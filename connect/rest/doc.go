// Package rest serves the Kafka Connect REST API.
//
// The central function is [New]: an http.Handler over the [Herder] that it declares, which a worker is. It keeps no state.
// A request that another worker of the group serves is handed on to it (forward.go).
//
// Invariants: methods, paths, statuses, bodies and messages are Kafka Connect's (the tests hold them); every error body is
// {"error_code", "message"}; request bodies are bounded; reads are answered from the herder's snapshots.
//
// Neighbours: connect/worker implements Herder and owns the JSON shapes; cmd serves the handler.
package rest
