// Package e2e tests weir from outside: a built binary in a process of its own, real
// services, and answers judged by foreign tools (kcat, psql, curl), never by weir.
//
// The central type is node, one running `weir start`. A scenario starts its own node
// in a folder of its own and shares the services, which `make test` starts once and
// names in the environment; it makes its own database, bucket and indices in them.
// Where the environment does not name them, a scenario is skipped and says so.
//
// Invariants: a scenario leaves nothing running, ends only what it has started, talks
// to the loopback interface alone, and waits for conditions, not for time to pass.
//
// Neighbours: services/ has the scripts that run PostgreSQL, an S3 server and
// OpenSearch; demo/ is the whole pipeline on Debian's package index with its checker;
// chaos/ breaks three nodes; bench/ measures.
package e2e
