package main

import "fmt"

// How the report tells what is set alike on both sides.
const (
	producerTold = "producers: acks=all, no compression, batches to 1 MiB, linger 5 ms"
	clientTold   = "franz-go, idempotent, acks=all, no compression, batches to 1 MiB, linger 5 ms"
)

const heapsTold = "heaps of Kafka's own scripts: broker 1024 MiB, Connect 256 MiB to 2 GiB"

// producerSettings are what the sources' producers have in common. Java sends a batch that is full at batch.size, weir one
// that is full at max.request.size; both are told both.
func producerSettings() map[string]string {
	return map[string]string{
		"producer.override.acks": "all", "producer.override.compression.type": "none", "producer.override.linger.ms": "5",
		"producer.override.batch.size": fmt.Sprint(batchBytes), "producer.override.max.request.size": fmt.Sprint(2 * batchBytes),
	}
}
