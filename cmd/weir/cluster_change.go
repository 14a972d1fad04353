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
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClusterElect(c *cli) *cobra.Command {
	var unclean bool
	cmd := &cobra.Command{
		Use: "elect [TOPIC[:PARTITION]…]", Short: "Let preferred replicas lead, or with --unclean any that is there",
		Long: `Let the first replica of each partition lead, if it is active and in sync: of the partitions named, or of all.

With --unclean a partition without leader is led by the first of its replicas that is active, although it was not in sync:
records that only the others have, acknowledged ones too, are lost.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if unclean && len(args) == 0 {
				return fmt.Errorf("%w: weir cluster elect --unclean wants the partitions named: it may lose records", errUsage)
			}
			named, err := parsePartitions(args)
			if err != nil {
				return err
			}
			return c.admin(cmd.Context(), func(adm *kadm.Client) error { return elect(cmd, adm, named, unclean) })
		},
	}
	cmd.Flags().BoolVar(&unclean, "unclean", false, "elect replicas that are not in sync where no other is there, and lose what they lack")
	return cmd
}

// parsePartitions reads TOPIC or TOPIC:PARTITION; a topic without partitions means all of its.
func parsePartitions(args []string) (map[string][]int32, error) {
	named := make(map[string][]int32)
	for _, arg := range args {
		topic, number, isOne := strings.Cut(arg, ":")
		if !isOne {
			named[topic] = nil
			continue
		}
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 || topic == "" {
			return nil, fmt.Errorf("%w: %s: want TOPIC or TOPIC:PARTITION", errUsage, arg)
		}
		if all, ok := named[topic]; ok && all == nil {
			continue
		}
		named[topic] = append(named[topic], int32(n))
	}
	return named, nil
}

func elect(cmd *cobra.Command, adm *kadm.Client, named map[string][]int32, unclean bool) error {
	how := kadm.ElectPreferredReplica
	if unclean {
		how = kadm.ElectLiveReplica
	}
	var set kadm.TopicsSet // nil: all
	for topic, partitions := range named {
		if partitions == nil {
			topics, err := adm.ListTopicsWithInternal(cmd.Context(), topic)
			if err == nil {
				err = topics[topic].Err
			}
			if err != nil {
				return fmt.Errorf("topic %s: %w", topic, err)
			}
			partitions = topics[topic].Partitions.Numbers()
		}
		set.Add(topic, partitions...)
	}
	results, err := adm.ElectLeaders(cmd.Context(), how, set)
	if err != nil {
		return fmt.Errorf("elect leaders: %w", err)
	}
	elected, failed := 0, 0
	for _, topic := range slices.Sorted(maps.Keys(results)) {
		for _, p := range slices.Sorted(maps.Keys(results[topic])) {
			switch r := results[topic][p]; {
			case r.Err == nil:
				elected++
				fmt.Fprintf(cmd.OutOrStdout(), "elected %s-%d\n", topic, p)
			case errors.Is(r.Err, kerr.ElectionNotNeeded):
			default:
				if failed++; failed <= maxNamed {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s-%d: %v\n", topic, p, notElected(r))
				}
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d not elected", failed, failed+elected)
	}
	if elected == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no election is needed")
	}
	return nil
}

// notElected is why a partition has no new leader. That the preferred one isn't there needs no more words.
func notElected(r kadm.ElectLeadersResult) error {
	if errors.Is(r.Err, kerr.PreferredLeaderNotAvailable) {
		return r.Err
	}
	return explained(r.Err, r.ErrMessage)
}

func newClusterRemove(c *cli) *cobra.Command {
	var drain bool
	cmd := &cobra.Command{
		Use: "remove ID", Short: "Forget a node that has gone for good", Args: exactArgs("ID"),
		Long: `Forget a node that has gone for good. Its id is never given again; a machine whose data folder is lost joins under a new one.

A node that is active is not removed: end it first. One that has replicas is not, either: with --drain other nodes get them
before, from the replicas that are in sync, and this waits for it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || id < 1 {
				return fmt.Errorf("%w: weir cluster remove %s: want a node's id", errUsage, args[0])
			}
			return c.connected(cmd.Context(), func(cl *kgo.Client) error { return remove(cmd, cl, int32(id), drain) })
		},
	}
	cmd.Flags().BoolVar(&drain, "drain", false, "give its replicas to other nodes before")
	return cmd
}

// remove drains a node if it is asked to, and has it forgotten.
func remove(cmd *cobra.Command, cl *kgo.Client, id int32, isDrained bool) error {
	ctx, adm := cmd.Context(), kadm.NewClient(cl)
	s, err := readCluster(ctx, cl)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.Nodes, func(n clusterNode) bool { return n.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("remove node %d: the cluster has no such node", id)
	case s.Nodes[i].State == "active":
		return fmt.Errorf("remove node %d: it is active (at %s): end it first", id, s.Nodes[i].Address)
	}
	held, err := heldBy(ctx, adm, id)
	switch {
	case err != nil:
		return err
	case len(held) > 0 && !isDrained:
		return fmt.Errorf("remove node %d: it has %d replicas (%s): --drain gives them to other nodes before", id, len(held), byTopic(held))
	case len(held) > 0:
		if err := drain(cmd, adm, id, s, held); err != nil {
			return fmt.Errorf("drain node %d: %w", id, err)
		}
	}
	ask := kmsg.NewPtrUnregisterBrokerRequest()
	ask.BrokerID = id
	resp, err := ask.RequestWith(ctx, cl)
	if err == nil {
		err = explained(kerr.ErrorForCode(resp.ErrorCode), deref(resp.ErrorMessage))
	}
	if err != nil {
		return fmt.Errorf("remove node %d: %w", id, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "removed node %d\n", id)
	return nil
}

// heldBy is the partitions that a node has replicas of.
func heldBy(ctx context.Context, adm *kadm.Client, id int32) ([]kadm.PartitionDetail, error) {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var held []kadm.PartitionDetail
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			if slices.Contains(p.Replicas, id) {
				held = append(held, p)
			}
		}
	}
	return held, nil
}

// byTopic names the topics of partitions, and of how many each.
func byTopic(partitions []kadm.PartitionDetail) string {
	counts := make(map[string]int)
	for _, p := range partitions {
		counts[p.Topic]++
	}
	var names []string
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		names = append(names, fmt.Sprintf("%d of %s", counts[topic], topic))
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("of %d topics more", more))
	}
	return strings.Join(names, ", ")
}

// drain gives a node's replicas to others, and waits until they have them. Where there is no other node a partition has a replica less.
func drain(cmd *cobra.Command, adm *kadm.Client, id int32, s *clusterStatus, held []kadm.PartitionDetail) error {
	ctx := cmd.Context()
	load := make(map[int32]int) // replicas, of those who may take some
	for _, n := range s.Nodes {
		if n.State == "active" {
			load[n.ID] = n.Replicas
		}
	}
	moves := make(kadm.AlterPartitionAssignmentsReq)
	for _, p := range held {
		replicas := replaced(p.Replicas, id, load)
		if len(replicas) == 0 {
			return fmt.Errorf("%s-%d has no other replica, and there is no other node: start the node again, or delete the topic", p.Topic, p.Partition)
		}
		moves.Assign(p.Topic, p.Partition, replicas)
	}
	answers, err := adm.AlterPartitionAssignments(ctx, moves)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("move replicas: %w", err)
	}
	shown := newProgress(cmd)
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		left, err := heldBy(ctx, adm, id)
		if err != nil || len(left) == 0 {
			tick.Stop()
			return err
		}
		shown.step("%d of %d replicas are still to be moved", len(left), len(held))
		select {
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("%d replicas are still being moved: %w", len(left), ctx.Err())
		case <-tick.C:
		}
	}
}

// replaced is the replicas with the node that has least in the place of one that goes; that one is left out if there is no other.
func replaced(replicas []int32, gone int32, load map[int32]int) []int32 {
	best := int32(-1)
	for _, id := range slices.Sorted(maps.Keys(load)) {
		if !slices.Contains(replicas, id) && (best < 0 || load[id] < load[best]) {
			best = id
		}
	}
	var next []int32
	for _, id := range replicas {
		switch {
		case id != gone:
			next = append(next, id)
		case best >= 0:
			next = append(next, best)
			load[best]++
		}
	}
	return next
}
