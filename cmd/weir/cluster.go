package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataTopic is the log of the metadata, by which DescribeQuorum is asked.
const metadataTopic = "__cluster_metadata"

// maxNamed is how many partitions are named where there may be very many.
const maxNamed = 20

func newCluster(c *cli) *cobra.Command {
	return group("cluster", "The cluster: its nodes and what they lack, elections, nodes that have gone",
		newClusterStatus(c), newClusterElect(c), newClusterRemove(c))
}

// clusterStatus is what weir cluster status shows.
type clusterStatus struct {
	ID         string           `json:"cluster_id"`
	Leader     int32            `json:"metadata_leader"` // -1: none
	Epoch      int32            `json:"metadata_leader_epoch"`
	NoLeader   string           `json:"metadata_error,omitempty"`
	Nodes      []clusterNode    `json:"nodes"`
	Partitions int              `json:"partitions"`
	Faults     []partitionFault `json:"faults"`
}

type clusterNode struct {
	ID       int32  `json:"id"`
	Address  string `json:"address"`
	Rack     string `json:"rack,omitempty"`
	State    string `json:"state"`           // active, fenced; unregistered: it has not joined wholly yet, or was removed
	Role     string `json:"role"`            // in the metadata's group: leader, voter, learner; none
	Behind   int64  `json:"metadata_behind"` // entries of the metadata that it lacks; -1: unknown
	Leads    int    `json:"leads"`
	Replicas int    `json:"replicas"`
	InSync   int    `json:"in_sync"`
}

// partitionFault is a partition that isn't as it should be.
type partitionFault struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Fault     string  `json:"fault"` // no leader, under min.insync.replicas, under-replicated
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"isr"`
	Offline   []int32 `json:"offline,omitempty"`
}

func newClusterStatus(c *cli) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show the nodes, who leads the metadata, and partitions that lack a leader or replicas", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s *clusterStatus
			err := c.connected(cmd.Context(), func(cl *kgo.Client) (err error) {
				s, err = readCluster(cmd.Context(), cl)
				return err
			})
			if err != nil {
				return err
			}
			if err := c.showCluster(cmd, s); err != nil || !check {
				return err
			}
			return s.check()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "fail if a node is not active, a partition has no leader or lacks replicas, or the metadata has no leader")
	return cmd
}

// check is why the cluster isn't as it should be.
func (s *clusterStatus) check() error {
	var faults []string
	if s.Leader < 0 {
		faults = append(faults, "the metadata has no leader")
	}
	inactive := 0
	for _, n := range s.Nodes {
		if n.State != "active" {
			inactive++
		}
	}
	if inactive > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d nodes are not active", inactive, len(s.Nodes)))
	}
	if len(s.Faults) > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d partitions lack a leader or replicas", len(s.Faults), s.Partitions))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// readCluster asks for all that status shows.
func readCluster(ctx context.Context, cl *kgo.Client) (*clusterStatus, error) {
	ask := kmsg.NewPtrDescribeClusterRequest()
	ask.EndpointType, ask.IncludeFencedBrokers = 1, true
	brokers, err := ask.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(brokers.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	s := &clusterStatus{ID: brokers.ClusterID, Leader: -1, Faults: []partitionFault{}}
	for _, b := range brokers.Brokers {
		n := clusterNode{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), State: "active", Role: "none", Behind: -1}
		if b.Rack != nil {
			n.Rack = *b.Rack
		}
		if b.IsFenced {
			n.State = "fenced"
		}
		s.Nodes = append(s.Nodes, n)
	}
	if err := s.readQuorum(ctx, cl); err != nil {
		s.NoLeader = err.Error()
	}
	if err := s.readPartitions(ctx, kadm.NewClient(cl)); err != nil {
		return nil, err
	}
	slices.SortFunc(s.Nodes, func(a, b clusterNode) int { return int(a.ID - b.ID) })
	return s, nil
}

// node is a node's row; one that has not registered gets its row here.
func (s *clusterStatus) node(id int32) *clusterNode {
	i := slices.IndexFunc(s.Nodes, func(n clusterNode) bool { return n.ID == id })
	if i < 0 {
		i = len(s.Nodes)
		s.Nodes = append(s.Nodes, clusterNode{ID: id, State: "unregistered", Role: "none", Behind: -1})
	}
	return &s.Nodes[i]
}

// readQuorum reads who leads the metadata and how far the members of its group are.
func (s *clusterStatus) readQuorum(ctx context.Context, cl *kgo.Client) error {
	ask := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = metadataTopic, []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	ask.Topics = append(ask.Topics, t)
	resp, err := ask.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("describe the metadata's group: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("describe the metadata's group: %w", explained(err, deref(p.ErrorMessage)))
			}
			s.Leader, s.Epoch = p.LeaderID, p.LeaderEpoch
			for role, members := range map[string][]kmsg.DescribeQuorumResponseTopicPartitionReplicaState{"voter": p.CurrentVoters, "learner": p.Observers} {
				for _, m := range members {
					n := s.node(m.ReplicaID)
					if n.Role = role; m.ReplicaID == p.LeaderID {
						n.Role = "leader"
					}
					n.Behind = max(0, p.HighWatermark-m.LogEndOffset)
				}
			}
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// readPartitions reads what the nodes hold, and finds the partitions that lack something.
func (s *clusterStatus) readPartitions(ctx context.Context, adm *kadm.Client) error {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics.Sorted() {
		leastInSync := 1
		if slices.ContainsFunc(t.Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return len(p.ISR) < len(p.Replicas) }) {
			if leastInSync, err = minInSync(ctx, adm, t.Topic); err != nil {
				return err
			}
		}
		for _, p := range t.Partitions.Sorted() {
			s.partition(t.Topic, p, leastInSync)
		}
	}
	return nil
}

func minInSync(ctx context.Context, adm *kadm.Client, topic string) (int, error) {
	answers, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("describe configuration of %s: %w", topic, err)
	}
	for _, a := range answers {
		for _, e := range a.Configs {
			if n, err := strconv.Atoi(e.MaybeValue()); e.Key == "min.insync.replicas" && err == nil {
				return n, nil
			}
		}
	}
	return 1, nil
}

func (s *clusterStatus) partition(topic string, p kadm.PartitionDetail, leastInSync int) {
	s.Partitions++
	for _, id := range p.Replicas {
		s.node(id).Replicas++
	}
	for _, id := range p.ISR {
		s.node(id).InSync++
	}
	fault := ""
	switch {
	case p.Leader < 0:
		fault = "no leader"
	case len(p.ISR) < min(leastInSync, len(p.Replicas)):
		fault = "under min.insync.replicas"
	case len(p.ISR) < len(p.Replicas):
		fault = "under-replicated"
	}
	if p.Leader >= 0 {
		s.node(p.Leader).Leads++
	}
	if fault != "" {
		s.Faults = append(s.Faults, partitionFault{Topic: topic, Partition: p.Partition, Fault: fault, Leader: p.Leader, Replicas: p.Replicas, InSync: p.ISR, Offline: p.OfflineReplicas})
	}
}

// showCluster prints a status.
func (c *cli) showCluster(cmd *cobra.Command, s *clusterStatus) error {
	out := cmd.OutOrStdout()
	if c.output != "table" {
		return c.encode(out, s)
	}
	by := fmt.Sprintf("led by node %d in epoch %d", s.Leader, s.Epoch)
	if s.Leader < 0 {
		by = "without leader: " + s.NoLeader
	}
	fmt.Fprintf(out, "cluster     %s\nmetadata    %s\npartitions  %d, of which %d lack a leader or replicas\n\n", s.ID, by, s.Partitions, len(s.Faults))
	nodes := listing{columns: []string{"NODE", "ADDRESS", "RACK", "STATE", "METADATA", "BEHIND", "LEADS", "IN SYNC", "REPLICAS"}, cells: func(v any) []string {
		n := v.(clusterNode)
		behind := "?"
		if n.Behind >= 0 {
			behind = strconv.FormatInt(n.Behind, 10)
		}
		return []string{strconv.Itoa(int(n.ID)), n.Address, n.Rack, n.State, n.Role, behind, strconv.Itoa(n.Leads), strconv.Itoa(n.InSync), strconv.Itoa(n.Replicas)}
	}}
	for _, n := range s.Nodes {
		nodes.rows = append(nodes.rows, n)
	}
	if err := c.print(cmd, nodes); err != nil || len(s.Faults) == 0 {
		return err
	}
	fmt.Fprintln(out)
	faults := listing{columns: []string{"PARTITION", "FAULT", "LEADER", "REPLICAS", "ISR", "OFFLINE"}, cells: func(v any) []string {
		f := v.(partitionFault)
		return []string{fmt.Sprintf("%s-%d", f.Topic, f.Partition), f.Fault, strconv.Itoa(int(f.Leader)), fmt.Sprint(f.Replicas), fmt.Sprint(f.InSync), fmt.Sprint(f.Offline)}
	}}
	for _, f := range s.Faults[:min(len(s.Faults), maxNamed)] {
		faults.rows = append(faults.rows, f)
	}
	err := c.print(cmd, faults)
	if more := len(s.Faults) - maxNamed; more > 0 {
		fmt.Fprintf(out, "and %d more (-o json has all)\n", more)
	}
	return err
}
