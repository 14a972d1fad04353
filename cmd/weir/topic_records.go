package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const maxLineBytes = 64 << 20 // longest line that topic produce takes

func newTopicProduce(c *cli) *cobra.Command {
	var keySeparator, file string
	var partition int32
	var headers []string
	cmd := &cobra.Command{Use: "produce NAME", Short: "Write lines of standard input or a file as records", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		in := cmd.InOrStdin()
		if file != "" {
			f, err := os.Open(file)
			if err != nil {
				return fmt.Errorf("open input: %w", err)
			}
			defer f.Close()
			in = f
		}
		pairs, err := parsePairs("header", headers)
		if err != nil {
			return err
		}
		opts := []kgo.Opt{kgo.DefaultProduceTopic(args[0]), kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(5 * time.Millisecond)}
		if partition >= 0 {
			opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		}
		cl, err := c.client(opts...)
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := cl.Ping(cmd.Context()); err != nil {
			return fmt.Errorf("no Kafka cluster answers at %s (--bootstrap names another): %w", c.bootstrap, err)
		}
		template := kgo.Record{Partition: partition}
		for k, v := range pairs {
			template.Headers = append(template.Headers, kgo.RecordHeader{Key: k, Value: []byte(*v)})
		}
		n, err := produceLines(cmd.Context(), cl, in, template, keySeparator, newProgress(cmd))
		if err != nil {
			return fmt.Errorf("produce to %s after %d records: %w", args[0], n, err)
		}
		return nil
	}}
	cmd.Flags().StringVarP(&keySeparator, "key-separator", "K", "", "text between key and value in a line; none: no keys")
	cmd.Flags().Int32VarP(&partition, "partition", "p", -1, "partition; -1: by key")
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "header, key=value; may be repeated")
	cmd.Flags().StringVarP(&file, "file", "f", "", "read this file instead of standard input")
	return cmd
}

// produceLines writes each line as a record and waits for all; it returns how many are durable.
func produceLines(ctx context.Context, cl *kgo.Client, in io.Reader, template kgo.Record, separator string, p *progress) (int, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	acked, sent := make(chan error, 1), 0
	var first error
	done := make(chan int)
	go func() { // ends when acked is closed, which is after Flush
		n := 0
		for err := range acked {
			if err == nil {
				n++
			} else if first == nil {
				first = err
			}
		}
		done <- n
	}()
	for lines.Scan() && ctx.Err() == nil {
		r := template
		text := lines.Text()
		if key, value, ok := strings.Cut(text, separator); separator != "" && ok {
			r.Key, text = []byte(key), value
		}
		r.Value = []byte(text)
		cl.Produce(ctx, &r, func(_ *kgo.Record, err error) { acked <- err })
		sent++
		p.step("%d records sent", sent)
	}
	err := cl.Flush(ctx)
	close(acked)
	n := <-done
	return n, errors.Join(lines.Err(), first, err)
}

func newTopicConsume(c *cli) *cobra.Command {
	var groupID, offset, format string
	var partition int32
	var count int
	var follow bool
	cmd := &cobra.Command{Use: "consume NAME", Short: "Print a topic's records", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		start, err := parseOffset(offset)
		if err != nil {
			return err
		}
		var ends map[int32]int64
		if !follow && groupID == "" {
			if ends, err = c.remaining(cmd.Context(), args[0], partition, offset); err != nil || len(ends) == 0 {
				return err
			}
		}
		opts := []kgo.Opt{kgo.KeepControlRecords()} // the last record of a partition may be one
		switch {
		case groupID != "":
			opts = append(opts, kgo.ConsumerGroup(groupID), kgo.ConsumeTopics(args[0]), kgo.ConsumeResetOffset(start), kgo.DisableAutoCommit())
		case partition >= 0:
			opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args[0]: {partition: start}}))
		default:
			opts = append(opts, kgo.ConsumeTopics(args[0]), kgo.ConsumeResetOffset(start))
		}
		cl, err := c.client(opts...)
		if err != nil {
			return err
		}
		defer cl.Close()
		p := recordPrinter{out: bufio.NewWriter(cmd.OutOrStdout()), format: format, json: c.output != "table"}
		return p.consume(cmd.Context(), cl, ends, count, groupID != "")
	}}
	cmd.Flags().StringVarP(&groupID, "group", "g", "", "read as this consumer group, committing what was printed")
	cmd.Flags().StringVar(&offset, "offset", "beginning", "beginning, end, a number, -N (the last N of each partition) or @TIME (milliseconds or RFC 3339)")
	cmd.Flags().Int32VarP(&partition, "partition", "p", -1, "only this partition")
	cmd.Flags().IntVarP(&count, "count", "n", 0, "stop after so many records; 0: no limit")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for more at the end (a group always does)")
	cmd.Flags().StringVarP(&format, "format", "f", "%v\n", "%t topic, %p partition, %o offset, %k key, %v value, %T timestamp, %h headers, \\n, \\t")
	return cmd
}

func parseOffset(text string) (kgo.Offset, error) {
	o := kgo.NewOffset()
	switch {
	case text == "beginning" || text == "earliest":
		return o.AtStart(), nil
	case text == "end" || text == "latest":
		return o.AtEnd(), nil
	case strings.HasPrefix(text, "@"):
		ms, err := parseTime(text[1:])
		return o.AfterMilli(ms), err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return o, fmt.Errorf("%w: --offset %s: want beginning, end, a number, -N or @TIME", errUsage, text)
	case n < 0:
		return o.AtEnd().Relative(n), nil
	}
	return o.At(n), nil
}

// parseTime reads milliseconds since the epoch or RFC 3339.
func parseTime(text string) (ms int64, err error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("%w: time %s: want milliseconds or RFC 3339", errUsage, text)
	}
	return t.UnixMilli(), nil
}

// remaining gives the end offset of each partition that has something to read from start on.
func (c *cli) remaining(ctx context.Context, topic string, partition int32, start string) (map[int32]int64, error) {
	out := map[int32]int64{}
	err := c.admin(ctx, func(adm *kadm.Client) error {
		begins, err := adm.ListStartOffsets(ctx, topic)
		if err == nil {
			err = begins.Error()
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
		ends.Each(func(o kadm.ListedOffset) {
			begin, _ := begins.Lookup(topic, o.Partition)
			from := begin.Offset
			if n, err := strconv.ParseInt(start, 10, 64); err == nil {
				from = max(from, n)
			} else if start == "end" || start == "latest" {
				from = o.Offset
			}
			if (partition < 0 || partition == o.Partition) && o.Offset > from {
				out[o.Partition] = o.Offset
			}
		})
		return nil
	})
	return out, err
}

// recordPrinter prints records by a format or as JSON lines.
type recordPrinter struct {
	out    *bufio.Writer
	format string
	json   bool
	n      int
}

// consume prints until ctx ends, count is reached or, with ends, each of its partitions is read to its end.
func (p *recordPrinter) consume(ctx context.Context, cl *kgo.Client, ends map[int32]int64, count int, commit bool) error {
	defer p.out.Flush()
	for {
		fetches := cl.PollRecords(ctx, 10_000)
		if ctx.Err() != nil {
			return nil
		}
		var fault error
		fetches.EachError(func(t string, _ int32, err error) { fault = errors.Join(fault, fmt.Errorf("consume %s: %w", t, err)) })
		if fault != nil {
			return fault
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			if end, ok := ends[r.Partition]; ends != nil && (!ok || r.Offset >= end) {
				delete(ends, r.Partition)
				continue
			}
			if !r.Attrs.IsControl() {
				if err := p.print(r); err != nil {
					return err
				}
				p.n++
			}
			if ends != nil && r.Offset == ends[r.Partition]-1 {
				delete(ends, r.Partition)
			}
			if p.n == count && count > 0 {
				if commit {
					return cl.CommitRecords(ctx, r)
				}
				return nil
			}
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		if commit {
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				return fmt.Errorf("commit offsets: %w", err)
			}
		}
		if ends != nil && len(ends) == 0 {
			return nil
		}
	}
}

type recordRow struct {
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Timestamp int64             `json:"timestamp"`
	Key       json.RawMessage   `json:"key"`
	Value     json.RawMessage   `json:"value"`
	Headers   map[string]string `json:"headers,omitempty"`
}

func (p *recordPrinter) print(r *kgo.Record) error {
	if p.json {
		row := recordRow{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), asJSON(r.Key), asJSON(r.Value), nil}
		for _, h := range r.Headers {
			if row.Headers == nil {
				row.Headers = map[string]string{}
			}
			row.Headers[h.Key] = string(h.Value)
		}
		b, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("print record: %w", err)
		}
		_, err = p.out.Write(append(b, '\n'))
		return err
	}
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	_, err := strings.NewReplacer("%t", r.Topic, "%p", strconv.Itoa(int(r.Partition)), "%o", strconv.FormatInt(r.Offset, 10),
		"%k", string(r.Key), "%v", string(r.Value), "%T", strconv.FormatInt(r.Timestamp.UnixMilli(), 10), "%h", strings.Join(headers, ","),
		`\n`, "\n", `\t`, "\t", "%%", "%").WriteString(p.out, p.format)
	return err
}

// asJSON shows JSON as it is, other text as a string and other bytes as a string of base64.
func asJSON(b []byte) json.RawMessage {
	if b == nil {
		return json.RawMessage("null")
	}
	if json.Valid(b) {
		return b
	}
	var out []byte
	if utf8.Valid(b) {
		out, _ = json.Marshal(string(b)) // a string always encodes
	} else {
		out, _ = json.Marshal(b)
	}
	return out
}
