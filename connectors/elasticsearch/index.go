package elasticsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/weirlog/weir/connect"
)

// index gives the index of a topic, made when it is not there. Two topics of one index are refused: their versions are
// offsets of different logs, and the newer of two documents could not be told.
func (s *sink) index(ctx context.Context, topic string) (string, error) {
	if name, ok := s.indices[topic]; ok {
		return name, nil
	}
	name, err := indexName(topic)
	if err != nil {
		return "", connect.BadConfig("topics", err)
	}
	for other, taken := range s.indices {
		if taken == name {
			return "", connect.BadConfig("topics", fmt.Errorf("topics %s and %s would both be written to index %s: rename one by a transform", other, topic, name))
		}
	}
	if err := s.makeIndex(ctx, name); err != nil {
		return "", err
	}
	s.indices[topic] = name
	return name, nil
}

func (s *sink) makeIndex(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	response, err := esapi.IndicesExistsRequest{Index: []string{name}}.Do(ctx, s.transport)
	if err != nil {
		return connect.Retry(0, fmt.Errorf("look for index %s: %w", name, err))
	}
	response.Body.Close()
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode != http.StatusNotFound:
		return whole("look for index "+name, response.StatusCode, nil)
	}
	response, err = esapi.IndicesCreateRequest{Index: name}.Do(ctx, s.transport)
	if err != nil {
		return connect.Retry(0, fmt.Errorf("create index %s: %w", name, err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return connect.Retry(0, fmt.Errorf("create index %s: %w", name, err))
	}
	if !response.IsError() {
		s.log.Info("index created", "index", name)
		return nil
	}
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &envelope)
	if f := parseFault(envelope.Error); f.Type == "resource_already_exists_exception" {
		return nil // another task was faster
	}
	return whole("create index "+name, response.StatusCode, body)
}
