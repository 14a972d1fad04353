// Command bench prints the figures that weir is judged by, each beside the physical limit measured in the same run and,
// where there is one, beside a peer that does the same work in the same minutes.
//
// It runs servers as black boxes: the built weir, and the peers by the scripts in ../peers. The central type is scenario:
// one comparison, one Go file of one shape. Its measure prepares a server, runs the load, has a foreign tool (kcat, psql,
// sha256sum) count and hash what arrived, and answers figures; the framework calls it for side A, side B and again, keeps
// every sample in a file, and reports medians with their spread. A measurement is the smaller sister: weir alone beside
// a limit, printed as lines.
//
// Invariants: a run whose answer is wrong is an error, never a figure; a peer that can't be had or started is "not run:
// why", never a win; whether weir can take part is asked of the binary, never written down here; latency at a fixed rate
// is counted from when each record, commit or line was due, so that a stall is felt by all that were due in it; both
// sides get the same settings, named in the report; nothing is asserted about speed, since machines are shared and noisy:
// the ratios and the CPU seconds are the figures to quote, and the A/A pair (weir against weir) says how far to trust
// them. A run that was stopped goes on with the next sample.
//
// Neighbours: the scripts of ../peers and ../services start servers (server.go, service.go), bench.sh builds and calls
// this, RESULTS.md is the last report that was worth keeping.
package main
