// Package provider resolves references to secrets and other outside values in configurations: ${provider:key} and
// ${provider:path:key}, as Kafka's config providers do.
//
// The central type is [Resolver], made by [New] from a worker's properties (config.providers and the keys below).
//
// Invariants:
//
//  1. What can't be resolved (an unknown provider, path or key) stays in the text as it was written.
//  2. A resolved value is never logged and stands in no error text.
//  3. A provider reads only what its configuration allows (allowed.paths, allowlist.pattern); a path is judged after its
//     links and dots are followed.
//  4. Nothing is cached: each Resolve reads anew, so a rotated secret is seen by the next start of a task.
//
// Neighbours: connect/worker resolves a connector's configuration before it validates or starts it, and cmd the worker's
// own. It imports only connect.
package provider
