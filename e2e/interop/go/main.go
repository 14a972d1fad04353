// Command interop tries Go's Kafka clients against a cluster and prints one line for
// each cell: client, feature, pass or fail, why, with tabs between.
//
//	interop sarama  HOST:PORT PREFIX
//	interop kafkago HOST:PORT PREFIX
//	interop stored  HOST:PORT PREFIX CLIENT   how what CLIENT wrote to PREFIX-gzip and so on is stored
//
// It is a module of its own, so that these clients are no dependencies of weir.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

const count = 300

// run is one try: a client, the cluster, and the prefix of the topics it makes.
type run struct {
	client, bootstrap, prefix string
	nodes                     int // of the cluster, as NODES says
	failed                    bool
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: interop sarama|kafkago|stored HOST:PORT PREFIX [CLIENT]")
		os.Exit(2)
	}
	r := &run{client: os.Args[1], bootstrap: os.Args[2], prefix: os.Args[3], nodes: 1}
	if n, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		r.nodes = n
	}
	switch r.client {
	case "sarama":
		r.sarama()
	case "kafkago":
		r.client = "kafka-go"
		r.kafkaGo()
	case "stored":
		if len(os.Args) < 5 {
			fmt.Fprintln(os.Stderr, "stored needs a client's name")
			os.Exit(2)
		}
		r.client = os.Args[4]
		r.stored()
	default:
		fmt.Fprintln(os.Stderr, "unknown client", r.client)
		os.Exit(2)
	}
}

// heard waits until every node has heard of a change: who is asked next need not be who has made it.
func (r *run) heard() {
	if r.nodes > 1 {
		time.Sleep(100 * time.Millisecond)
	}
}

// cell runs one cell, for two minutes at most, and prints its line.
func (r *run) cell(feature string, try func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := make(chan error, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				err <- fmt.Errorf("panic: %v", fault)
			}
		}()
		err <- try(ctx)
	}()
	var fault error
	select {
	case fault = <-err:
	case <-ctx.Done():
		fault = ctx.Err()
	}
	status, note := "pass", ""
	if fault != nil {
		status, note = "fail", strings.Join(strings.Fields(fault.Error()), " ")
	}
	fmt.Printf("%s\t%s\t%s\t%s\n", r.client, feature, status, note)
}

func (r *run) topic(name string) string { return r.prefix + "-" + name }

// values are what each cell writes: long enough to be worth compressing.
func values(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = []byte(strings.Repeat(fmt.Sprintf("value %d ", i), 20))
	}
	return all
}

// same compares two lists of values in their order.
func same(got, want [][]byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d values, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("value %d is %.60q, want %.60q", i, got[i], want[i])
		}
	}
	return nil
}

// sorted sorts values, for comparisons over several partitions.
func sorted(all [][]byte) [][]byte {
	sort.Slice(all, func(i, j int) bool { return bytes.Compare(all[i], all[j]) < 0 })
	return all
}
