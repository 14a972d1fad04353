package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// document is row i as a sink meets it: a JSON object of about 250 bytes, whose id is its key.
func document(i int) string {
	return fmt.Sprintf(`{"id":%d,"account":%d,"name":"name %d","ok":%t,"score":%d.25,"note":"%s"}`, i, i%1000, i, i%2 == 0, i%977, documentNote)
}

const documentNote = "lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua, ut enim ad minim veniam"

// writeDocuments fills the topic, of one partition, with the first n documents and answers their bytes.
func writeDocuments(ctx context.Context, addr string, n int) (sizeBytes int64, err error) {
	cl, err := producer(addr, lingerTime, bufferBytes)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var fault atomic.Pointer[error]
	for i := 0; i < n && fault.Load() == nil; i++ {
		value := []byte(document(i))
		sizeBytes += int64(len(value))
		cl.Produce(ctx, &kgo.Record{Topic: topicName, Key: fmt.Append(nil, i), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				fault.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, err
	}
	if f := fault.Load(); f != nil {
		return 0, fmt.Errorf("write documents: %w", *f)
	}
	return sizeBytes, nil
}

// sinkRate runs a sink on the documents in the topic until the target holds them all by its own count.
func (b *bench) sinkRate(ctx context.Context, s *server, total float64, config map[string]string, count func() (float64, error)) (progress, usage, error) {
	before := s.usage()
	if err := put(ctx, s, "sink", config); err != nil {
		return progress{}, usage{}, err
	}
	moved, err := watch(ctx, "the target holds all documents", 0, total, func() (float64, error) {
		if _, err := running(ctx, s, "sink"); err != nil {
			return 0, err
		}
		return count()
	})
	after := s.usage()
	after.cpuSeconds -= before.cpuSeconds
	return moved, after, err
}
