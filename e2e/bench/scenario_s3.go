package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	bucketDocumentsPerSecond = 100_000 // of a run's seconds
	bucketName               = "weir-bench"
	bucketObject             = 100_000 // documents of one object
	s3Key, s3Secret          = "weir", "weir-secret"
)

// s3Scenario reads a topic into a bucket. There is no peer to be had, so the store itself is the measure.
func s3Scenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "s3",
		title: "topic → S3 sink → versitygw",
		settings: []string{
			fmt.Sprintf("one task, topic of one partition, JSON lines of about 250 bytes, objects of %d documents, no compression, connector defaults otherwise", bucketObject),
			"the rate is of bytes in closed objects, from the request to the last object; CPU and memory are those of broker and worker, not of the store",
			"the limit is a plain uploader (PutObject of the same bytes, one object after the other) on the same store",
			"no peer: Confluent's S3 sink is in no public package registry",
		},
		sides: sides, pairs: pairs, services: []string{serviceS3}, limit: putLimit, measure: measureS3,
	}
}

func (b *bench) makeBucket(ctx context.Context, name string) error {
	s := b.services[serviceS3]
	_, err := s.run(ctx, "", "bucket", s.dir, name)
	return err
}

// putLimit uploads as many bytes as a run has, without a topic.
func putLimit(ctx context.Context, b *bench) ([]figure, error) {
	const name = bucketName + "-limit"
	if err := b.makeBucket(ctx, name); err != nil {
		return nil, err
	}
	cl := s3.New(s3.Options{
		BaseEndpoint: aws.String(b.services[serviceS3].addr), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s3Key, s3Secret, ""),
	})
	var body bytes.Buffer
	for i := range bucketObject {
		body.WriteString(document(i))
		body.WriteByte('\n')
	}
	objects := max(1, bucketDocumentsPerSecond*b.seconds/bucketObject)
	began := time.Now()
	for i := range objects {
		_, err := cl.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(name), Key: aws.String(fmt.Sprint(i)), Body: bytes.NewReader(body.Bytes())})
		if err != nil {
			return nil, fmt.Errorf("put object: %w", err)
		}
	}
	return []figure{higher("put", "PutObject, one after the other", "MB/s", float64(objects*body.Len())/1e6/time.Since(began).Seconds())}, nil
}

func measureS3(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := createTopic(ctx, s.kafka, 1, 1); err != nil {
		return sample{}, err
	}
	n := bucketDocumentsPerSecond * b.seconds
	payload, err := writeDocuments(ctx, s.kafka, n)
	if err != nil {
		return sample{}, err
	}
	name := fmt.Sprintf("%s-%d", bucketName, time.Now().UnixNano())
	if err := b.makeBucket(ctx, name); err != nil {
		return sample{}, err
	}
	folder := filepath.Join(b.services[serviceS3].dir, "objects", name)
	total := payload + int64(n) // a line feed each
	profiled := b.profileOf(ctx, "s3", sd, s, part(b.seconds, 0.2))
	moved, used, err := b.sinkRate(ctx, s, float64(total), map[string]string{
		"connector.class": "io.confluent.connect.s3.S3SinkConnector", "tasks.max": "1", "topics": topicName, "store.url": b.services[serviceS3].addr,
		"s3.region": "us-east-1", "s3.bucket.name": name, "aws.access.key.id": s3Key, "aws.secret.access.key": s3Secret,
		"storage.class": "io.confluent.connect.s3.storage.S3Storage", "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
		"flush.size": fmt.Sprint(bucketObject), "key.converter": "org.apache.kafka.connect.storage.StringConverter",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
	}, func() (float64, error) { return objectBytes(folder) })
	if err := errors.Join(err, profiled()); err != nil {
		return sample{}, err
	}
	got.Figures = []figure{
		higher("rate", "topic to bucket", "MB/s", float64(total)/1e6/(moved.wait+moved.took).Seconds()),
		higher("rate_records", "topic to bucket", "records/s", float64(n)/(moved.wait+moved.took).Seconds()),
		lower("wait", "from the request to the first object", "ms", float64(moved.wait.Milliseconds())),
		lower("cpu", "CPU of broker and worker", "s/GB", used.cpuSeconds/float64(total)*1e9),
		lower("peak", "peak RSS of broker and worker", "MiB", used.peakMiB),
	}
	got.Verified, err = verifyBucket(ctx, folder, n)
	return got, err
}

// objectBytes sums the objects that are there.
func objectBytes(folder string) (total float64, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		total += float64(info.Size())
		return nil
	})
	return total, err
}

// ignoreGone passes over what vanished while it was looked at: the store's temporary files.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// verifyBucket hashes id and name of every line in the order of offsets, as jq reads them.
func verifyBucket(ctx context.Context, folder string, n int) (string, error) {
	want, err := shell(ctx, `seq 0 $(($1 - 1)) | sed 's/.*/& name &/' | sha256sum`, fmt.Sprint(n))
	if err != nil {
		return "", err
	}
	got, err := shell(ctx, `find "$1" -name '*.json' | LC_ALL=C sort | xargs cat | jq -r '"\(.id) \(.name)"' | sha256sum`, folder)
	if err != nil {
		return "", err
	}
	if got != want {
		return "", fmt.Errorf("%w: the bucket's lines hash to %s, not %s", errWrong, got, want)
	}
	return fmt.Sprintf("sha256sum of %d lines read by jq from the store's files is right", n), nil
}
