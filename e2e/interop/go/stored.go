package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// codecs are the compressions and their numbers in a batch's attributes.
var codecs = map[string]uint8{"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

// stored reads with a client that shows attributes what another has written: an old
// client that misunderstands the versions offered drops compression without a word.
func (r *run) stored() {
	for name, number := range codecs {
		r.cell(name, func(ctx context.Context) error { return r.storedAs(ctx, r.topic(name), number) })
	}
}

func (r *run) storedAs(ctx context.Context, topic string, number uint8) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.bootstrap), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	for seen := 0; seen < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			seen++
			if got := record.Attrs.CompressionType(); got != number {
				return fmt.Errorf("offset %d is stored with compression %d, want %d", record.Offset, got, number)
			}
		}
	}
	return nil
}
