package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func newTopic(c *cli) *cobra.Command {
	return group("topic", "Topics: create, list, describe, alter, delete, produce, consume",
		newTopicCreate(c), newTopicList(c), newTopicDescribe(c), newTopicAlter(c), newTopicDelete(c), newTopicProduce(c), newTopicConsume(c))
}

// client opens a client of the cluster that --bootstrap names.
func (c *cli) client(extra ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.ClientID("weir-cli"), kgo.MetadataMinAge(100 * time.Millisecond)}, extra...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	return cl, nil
}

// admin runs f with an admin client.
func (c *cli) admin(ctx context.Context, f func(*kadm.Client) error) error {
	return c.connected(ctx, func(cl *kgo.Client) error { return f(kadm.NewClient(cl)) })
}

// connected runs f with a client; an unreachable cluster is told as such.
func (c *cli) connected(ctx context.Context, f func(*kgo.Client) error) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("no Kafka cluster answers at %s (--bootstrap names another): %w", c.bootstrap, err)
	}
	return f(cl)
}

func parsePairs(flag string, pairs []string) (map[string]*string, error) {
	out := make(map[string]*string, len(pairs))
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%w: --%s %s: want key=value", errUsage, flag, p)
		}
		out[k] = &v
	}
	return out, nil
}

func newTopicCreate(c *cli) *cobra.Command {
	var partitions int32
	var replication int16
	var config []string
	var ifAbsent bool
	cmd := &cobra.Command{Use: "create NAME…", Short: "Create topics", Args: someArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		pairs, err := parsePairs("config", config)
		if err != nil {
			return err
		}
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			answers, err := adm.CreateTopics(cmd.Context(), partitions, replication, pairs, args...)
			if err != nil {
				return fmt.Errorf("create topics: %w", err)
			}
			return eachTopic(cmd, answers.Sorted(), "created", func(r kadm.CreateTopicResponse) (string, error) {
				if ifAbsent && r.Err != nil && strings.Contains(r.Err.Error(), "TOPIC_ALREADY_EXISTS") {
					return r.Topic, nil
				}
				if r.Err == nil && replication > 0 && r.ReplicationFactor > 0 && r.ReplicationFactor != replication {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %d copies were asked for, the cluster has nodes for %d\n", r.Topic, replication, r.ReplicationFactor)
				}
				return r.Topic, explained(r.Err, r.ErrMessage)
			})
		})
	}}
	cmd.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1: the broker's default")
	cmd.Flags().Int16Var(&replication, "replication-factor", -1, "copies of each partition; -1: the broker's default")
	cmd.Flags().StringArrayVar(&config, "config", nil, "topic configuration, key=value; may be repeated")
	cmd.Flags().BoolVar(&ifAbsent, "if-not-exists", false, "an existing topic is no error")
	return cmd
}

// eachTopic says of each answer what became of it and fails if one failed.
func eachTopic[T any](cmd *cobra.Command, answers []T, done string, of func(T) (string, error)) error {
	failed := 0
	for _, a := range answers {
		name, err := of(a)
		if err != nil {
			failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", done, name)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d not %s", failed, len(answers), done)
	}
	return nil
}

type topicRow struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions int               `json:"partitions"`
	Replicas   int               `json:"replicas"`
	Records    int64             `json:"offsets"` // end minus start, over all partitions
	Internal   bool              `json:"internal"`
	Config     map[string]string `json:"config,omitempty"`
	Parts      []partitionRow    `json:"partition_details,omitempty"`
}

type partitionRow struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Epoch     int32   `json:"leader_epoch"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"isr"`
	Start     int64   `json:"start_offset"`
	End       int64   `json:"end_offset"`
	Fault     string  `json:"error,omitempty"`
}

// topicRows reads topics with their offsets; no names means all.
func topicRows(ctx context.Context, adm *kadm.Client, internal bool, names ...string) ([]topicRow, error) {
	list := adm.ListTopics
	if internal || len(names) > 0 {
		list = adm.ListTopicsWithInternal
	}
	topics, err := list(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	starts, err := adm.ListStartOffsets(ctx, topics.Names()...)
	if err != nil && len(starts) == 0 && len(topics) > 0 {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics.Names()...)
	if err != nil && len(ends) == 0 && len(topics) > 0 {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	var rows []topicRow
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		row := topicRow{Name: t.Topic, ID: t.ID.String(), Partitions: len(t.Partitions), Replicas: t.Partitions.NumReplicas(), Internal: t.IsInternal}
		for _, p := range t.Partitions.Sorted() {
			part := partitionRow{Topic: t.Topic, Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: p.Replicas, InSync: p.ISR, Start: -1, End: -1}
			if o, ok := starts.Lookup(t.Topic, p.Partition); ok && o.Err == nil {
				part.Start = o.Offset
			}
			if o, ok := ends.Lookup(t.Topic, p.Partition); ok && o.Err == nil {
				part.End = o.Offset
			}
			if p.Err != nil {
				part.Fault = p.Err.Error()
			}
			row.Records += part.End - part.Start
			row.Parts = append(row.Parts, part)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func newTopicList(c *cli) *cobra.Command {
	var internal bool
	cmd := &cobra.Command{Use: "list", Short: "List topics", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			topics, err := topicRows(cmd.Context(), adm, internal)
			if err != nil {
				return err
			}
			l := listing{columns: []string{"NAME", "PARTITIONS", "REPLICAS", "OFFSETS"}, cells: func(v any) []string {
				t := v.(topicRow)
				return []string{t.Name, strconv.Itoa(t.Partitions), strconv.Itoa(t.Replicas), strconv.FormatInt(t.Records, 10)}
			}}
			for _, t := range topics {
				t.Parts = nil
				l.rows = append(l.rows, t)
			}
			return c.print(cmd, l)
		})
	}}
	cmd.Flags().BoolVar(&internal, "internal", false, "internal topics too")
	return cmd
}

func newTopicDescribe(c *cli) *cobra.Command {
	return &cobra.Command{Use: "describe NAME…", Short: "Show topics' partitions, offsets and configuration", Args: someArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			topics, err := topicRows(cmd.Context(), adm, true, args...)
			if err != nil {
				return err
			}
			for i := range topics {
				if topics[i].Config, err = topicConfig(cmd.Context(), adm, topics[i].Name); err != nil {
					return err
				}
			}
			if c.output != "table" {
				return c.encode(cmd.OutOrStdout(), topics)
			}
			for _, t := range topics {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  id %s\n", t.Name, t.ID)
				for _, k := range slices.Sorted(maps.Keys(t.Config)) {
					fmt.Fprintf(cmd.OutOrStdout(), "  %s=%s\n", k, t.Config[k])
				}
				l := listing{columns: []string{"  PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END"}, cells: func(v any) []string {
					p := v.(partitionRow)
					return []string{"  " + strconv.Itoa(int(p.Partition)), strconv.Itoa(int(p.Leader)), strconv.Itoa(int(p.Epoch)), fmt.Sprint(p.Replicas), fmt.Sprint(p.InSync), strconv.FormatInt(p.Start, 10), strconv.FormatInt(p.End, 10)}
				}}
				for _, p := range t.Parts {
					l.rows = append(l.rows, p)
				}
				if err := c.print(cmd, l); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}

// topicConfig gives what was set for the topic itself.
func topicConfig(ctx context.Context, adm *kadm.Client, topic string) (map[string]string, error) {
	answers, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describe configuration of %s: %w", topic, err)
	}
	out := map[string]string{}
	for _, a := range answers {
		if a.Err != nil {
			return nil, fmt.Errorf("describe configuration of %s: %w", topic, a.Err)
		}
		for _, e := range a.Configs {
			if e.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				out[e.Key] = e.MaybeValue()
			}
		}
	}
	return out, nil
}

// explained is a broker's own words with the name of its error code, or the error alone if it says no more.
func explained(err error, message string) error {
	var code *kerr.Error
	if err == nil || message == "" || !errors.As(err, &code) {
		return err
	}
	return fmt.Errorf("%s (%s)", strings.TrimSuffix(message, ": "+err.Error()), code.Message)
}

func newTopicAlter(c *cli) *cobra.Command {
	var config, remove []string
	var partitions int
	cmd := &cobra.Command{Use: "alter NAME", Short: "Change a topic's configuration or add partitions", Args: exactArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		pairs, err := parsePairs("config", config)
		if err != nil {
			return err
		}
		if len(pairs)+len(remove) == 0 && partitions == 0 {
			return fmt.Errorf("%w: nothing to alter: give --config, --delete-config or --partitions", errUsage)
		}
		var alters []kadm.AlterConfig
		for k, v := range pairs {
			alters = append(alters, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: v})
		}
		for _, k := range remove {
			alters = append(alters, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
		}
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			if len(alters) > 0 {
				answers, err := adm.AlterTopicConfigs(cmd.Context(), alters, args[0])
				if err == nil && len(answers) > 0 {
					err = explained(answers[0].Err, answers[0].ErrMessage)
				}
				if err != nil {
					return fmt.Errorf("alter configuration of %s: %w", args[0], err)
				}
			}
			if partitions != 0 {
				answers, err := adm.UpdatePartitions(cmd.Context(), partitions, args[0])
				if err == nil {
					err = explained(answers[args[0]].Err, answers[args[0]].ErrMessage)
				}
				if err != nil {
					return fmt.Errorf("set partitions of %s to %d: %w", args[0], partitions, err)
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), "altered", args[0])
			return nil
		})
	}}
	cmd.Flags().StringArrayVar(&config, "config", nil, "key=value; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "delete-config", nil, "key to set back to its default; may be repeated")
	cmd.Flags().IntVar(&partitions, "partitions", 0, "new number of partitions")
	return cmd
}

func newTopicDelete(c *cli) *cobra.Command {
	return &cobra.Command{Use: "delete NAME…", Short: "Delete topics with all their records", Args: someArgs("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
		return c.admin(cmd.Context(), func(adm *kadm.Client) error {
			answers, err := adm.DeleteTopics(cmd.Context(), args...)
			if err != nil {
				return fmt.Errorf("delete topics: %w", err)
			}
			return eachTopic(cmd, answers.Sorted(), "deleted", func(r kadm.DeleteTopicResponse) (string, error) { return r.Topic, r.Err })
		})
	}}
}
