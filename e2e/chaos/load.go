package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topicName    = "chaos"
	partitions   = 6
	producers    = 4
	perSecond    = 200 // records of one producer
	mostBuffered = 1000
	flushLimit   = 90 * time.Second // for the last answers, when the faults are over
	kcatPace     = 20 * time.Millisecond
)

// patient gives up nothing, however long it takes.
func patient(bootstrap []string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.DialTimeout(time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second)}
}

// hasty doesn't wait long for a broker that hangs, so that the gaps are the brokers'; it sends again what may have arrived.
func hasty() []kgo.Opt {
	return []kgo.Opt{kgo.RequestTimeoutOverhead(time.Second), kgo.ProduceRequestTimeout(time.Second)}
}

// produce sends numbered records, idempotent and to be acknowledged by the whole in-sync set, until ctx ends, and waits for every answer.
// The first producer has the client's own time limits, the others are hasty.
func produce(ctx context.Context, h *history, bootstrap []string, producer int) error {
	opts := append(patient(bootstrap), kgo.DefaultProduceTopic(topicName), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(mostBuffered), kgo.UnknownTopicRetries(-1), kgo.ClientID(fmt.Sprint("producer-", producer)))
	if producer > 0 {
		opts = append(opts, hasty()...)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	last := context.WithoutCancel(ctx)
	pace := time.NewTicker(time.Second / perSecond)
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		l := lane{fmt.Sprint("kgo", producer), int32(i % partitions)}
		number := h.send(l)
		cl.Produce(last, &kgo.Record{Partition: l.partition, Key: []byte(strconv.Itoa(number)), Value: []byte(l.value(number))}, func(r *kgo.Record, err error) {
			h.answered(l, number, r.Offset, err)
		})
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	limit, cancel := context.WithTimeout(last, flushLimit)
	defer cancel()
	if err := cl.Flush(limit); err != nil {
		h.failf("producer %d: not every record was answered %v after the faults had ended", producer, flushLimit)
	}
	return nil
}

// produceByKcat is a foreign producer, idempotent too, into one partition. It ends with success only if all was acknowledged.
func produceByKcat(ctx context.Context, h *history, bootstrap []string) error {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	l := lane{"kcat", 0}
	cmd := exec.CommandContext(last, "kcat", "-P", "-E", "-b", strings.Join(bootstrap, ","), "-t", topicName, "-p", "0", "-X", "enable.idempotence=true", "-X", "acks=all",
		"-X", "message.timeout.ms=600000", "-X", "socket.timeout.ms=5000", "-X", "request.timeout.ms=3000", "-X", "linger.ms=2", "-X", "topic.metadata.refresh.fast.interval.ms=50", "-X", "log_level=2")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start kcat: %w", err)
	}
	pace := time.NewTicker(kcatPace)
	defer pace.Stop()
	sent := 0
	for ctx.Err() == nil {
		number := h.send(l)
		if _, err := io.WriteString(in, l.value(number)+"\n"); err != nil {
			break
		}
		sent++
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
	in.Close()
	overdue := time.AfterFunc(flushLimit, cancel)
	defer overdue.Stop()
	if err := cmd.Wait(); err != nil {
		h.failf("kcat could not produce all: %v: %s", err, strings.TrimSpace(said.String()))
		return nil
	}
	for number := range sent {
		h.answered(l, number, unknown, nil)
	}
	return nil
}
