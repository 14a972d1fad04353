// Package console is the web address for people and probes: a status page, /status.json, /healthz, /readyz and /metrics.
//
// The central type is [Snapshot]: all that the page shows, taken anew for each request. Everything is embedded; the page
// loads nothing from elsewhere, runs no script and works with JavaScript off.
//
// Invariants: no answer waits for a connector or another node (snapshots return at once); no secret is in a snapshot; all
// text is escaped by html/template.
//
// Neighbours: cmd/weir makes the snapshots from the broker's and the worker's figures. It imports nothing of weir's.
package console
