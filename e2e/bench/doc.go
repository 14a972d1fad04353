// Command bench prints the figures that weir is judged by, each beside the physical limit measured in the same run.
//
// It runs the built binary as a black box: start-up and idle memory, the durable rate of synchronous producers beside
// the disk's own fdatasync, and PostgreSQL change events beside pg_recvlogical reading the same WAL with the same slot
// options. Nothing is asserted: machines are shared and noisy, so the ratios and the CPU seconds are the figures to quote.
//
// Usage: bench [-weir bin/weir] [-dir FOLDER] [-pg HOST:PORT] [-rows N] [idle|produce|postgres …]
package main
