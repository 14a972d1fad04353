package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	searchDocumentsPerSecond = 10_000 // of a run's seconds
	searchBatch              = 2000   // documents of one request, the connector's default
	searchInFlight           = 5      // requests at a time, the same
)

// opensearchScenario reads a topic into a search index. There is no peer to be had, so a raw loader is the measure.
func opensearchScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "opensearch",
		title: "topic → search sink → OpenSearch",
		settings: []string{
			fmt.Sprintf("one task, topic of one partition, documents of about 250 bytes with ids, requests of %d documents, %d at a time, connector defaults otherwise", searchBatch, searchInFlight),
			"the rate is from the request to the last document that the index counts; CPU and memory are those of broker and worker, not of OpenSearch",
			"the limit is a raw _bulk loader with the same documents and requests on the same server, which is warmed before by as many",
			"no peer: Confluent's Elasticsearch sink is in no public package registry",
		},
		sides: sides, pairs: pairs, services: []string{serviceOpenSearch}, limit: bulkLimit, measure: measureOpenSearch,
	}
}

// bulkLimit loads twice: the first time warms the server's JVM.
func bulkLimit(ctx context.Context, b *bench) ([]figure, error) {
	n := searchDocumentsPerSecond * b.seconds
	var took time.Duration
	for _, index := range []string{"warm", "limit"} {
		if err := b.freshIndex(ctx, index); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := b.bulkLoad(ctx, index, n); err != nil {
			return nil, err
		}
		took = time.Since(began)
	}
	return []figure{higher("bulk", fmt.Sprintf("_bulk, %d requests of %d documents at a time", searchInFlight, searchBatch), "documents/s", float64(n)/took.Seconds())}, nil
}

// freshIndex makes an empty index of one shard, and ends every other: what they would merge later is not ours to pay.
func (b *bench) freshIndex(ctx context.Context, name string) error {
	url := b.services[serviceOpenSearch].addr
	if err := call(ctx, http.MethodDelete, url+"/*", nil, nil); err != nil {
		return err
	}
	return call(ctx, http.MethodPut, url+"/"+name, map[string]any{"settings": map[string]any{"number_of_shards": 1, "number_of_replicas": 0}}, nil)
}

func (b *bench) bulkLoad(ctx context.Context, index string, n int) error {
	var group sync.WaitGroup
	faults := make([]error, searchInFlight)
	for w := range searchInFlight {
		group.Go(func() {
			for from := w * searchBatch; from < n && faults[w] == nil; from += searchInFlight * searchBatch {
				faults[w] = b.bulkOnce(ctx, index, from, min(from+searchBatch, n))
			}
		})
	}
	group.Wait()
	return errors.Join(faults...)
}

func (b *bench) bulkOnce(ctx context.Context, index string, first, end int) error {
	var body bytes.Buffer
	for i := first; i < end; i++ {
		fmt.Fprintf(&body, "{\"index\":{\"_id\":\"%d\"}}\n%s\n", i, document(i))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.services[serviceOpenSearch].addr+"/"+index+"/_bulk?filter_path=errors", &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var answer struct{ Errors bool }
	if err = errors.Join(err, json.Unmarshal(text, &answer)); err != nil || answer.Errors || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("_bulk: %s: %.300s: %w", resp.Status, text, err)
	}
	return nil
}

func measureOpenSearch(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, 1, 1); err != nil {
		return sample{}, err
	}
	n := searchDocumentsPerSecond * b.seconds
	if _, err := writeDocuments(ctx, s.kafka, n); err != nil {
		return sample{}, err
	}
	if err := b.freshIndex(ctx, topicName); err != nil {
		return sample{}, err
	}
	url := b.services[serviceOpenSearch].addr
	profiled := b.profileOf(ctx, "opensearch", sd, s, part(b.seconds, 0.2))
	moved, used, err := b.sinkRate(ctx, s, float64(n), map[string]string{
		"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", "tasks.max": "1", "topics": topicName, "connection.url": url,
		"key.ignore": "false", "schema.ignore": "true", "batch.size": fmt.Sprint(searchBatch), "max.in.flight.requests": fmt.Sprint(searchInFlight),
		"key.converter":   "org.apache.kafka.connect.storage.StringConverter",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
	}, func() (float64, error) { return written(ctx, url) })
	if err := errors.Join(err, profiled()); err != nil {
		return sample{}, err
	}
	got.Figures = []figure{
		higher("rate", "topic to index", "documents/s", float64(n)/(moved.wait+moved.took).Seconds()),
		lower("wait", "from the request to the first documents", "ms", float64(moved.wait.Milliseconds())),
		lower("cpu", "CPU of broker and worker", "s per million", used.cpuSeconds/float64(n)*1e6),
		lower("peak", "peak RSS of broker and worker", "MiB", used.peakMiB),
	}
	seen, err := shell(ctx, `curl -fsS -X POST "$1/$2/_refresh" >/dev/null && curl -fsS "$1/$2/_search?size=0" -H 'Content-Type: application/json' \
		-d '{"track_total_hits":true,"aggs":{"ids":{"sum":{"field":"id"}}}}' | jq -r '"\(.hits.total.value) \(.aggregations.ids.value | tostring)"'`, url, topicName)
	if want := fmt.Sprintf("%d %d", n, n*(n-1)/2); err == nil && seen != want {
		err = fmt.Errorf("%w: documents and the sum of ids are %s, not %s", errWrong, seen, want)
	}
	got.Verified = fmt.Sprintf("curl and jq: documents and the sum of their ids are %s", seen)
	return got, err
}

// written is the number of documents that were indexed, refreshed or not.
func written(ctx context.Context, url string) (float64, error) {
	if err := sleep(ctx, 50*time.Millisecond); err != nil { // the asking should not be what the server is busy with
		return 0, err
	}
	var stats struct {
		All struct {
			Primaries struct {
				Indexing struct {
					IndexTotal float64 `json:"index_total"`
				}
			}
		} `json:"_all"`
	}
	err := call(ctx, http.MethodGet, url+"/"+topicName+"/_stats/indexing", nil, &stats)
	return stats.All.Primaries.Indexing.IndexTotal, err
}
