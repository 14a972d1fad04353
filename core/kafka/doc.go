// Package kafka is how anything in weir reaches a Kafka cluster: it turns the
// properties that Java clients are configured with into options of a kgo client.
//
// The central function is Options: properties of one client in one Role in, options
// and warnings out. NewClient opens a client with them. Overlay makes one client's
// properties out of a worker's (the "producer.", "consumer." and "admin." prefixes),
// ParseProperties reads Java's .properties files, Nearest finds what an unknown key
// was probably meant to be.
//
// Invariants:
//   - A known key is honoured, or has no effect on data and is reported as such, or is
//     refused by name (ErrRefused). No key that would change data is dropped silently.
//   - An unknown key is never an error here: it is reported, with the nearest known key;
//     the caller decides.
//   - No error or warning contains the value of a secret.
//   - Key stores and password files are read when Options is called and not again.
//
// Neighbours: the worker, the registry, the mirror, the command line and those connectors
// that must reach Kafka call it; it imports nothing of ours. The embedded broker is
// reached by passing kgo.Dialer as an extra option.
package kafka
