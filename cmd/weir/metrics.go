package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weirlog/weir/connect/console"
	"github.com/weirlog/weir/connect/worker"
	"github.com/weirlog/weir/core"
)

// newMetrics makes the registry behind /metrics; b is nil where there is no broker. Names and labels are public:
// testdata/surface/metrics.txt keeps them.
func newMetrics(b *core.Broker, w *worker.Worker) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &workerMetrics{w.Stats})
	if b != nil {
		reg.MustRegister(&brokerMetrics{b.Stats, b.Partitions})
	}
	return reg
}

// metric sends one sample; a collector of this package describes nothing ahead, since its samples come from snapshots.
func metric(ch chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("weir_"+name, help, names, nil), kind, value, values...)
}

func gauge(ch chan<- prometheus.Metric, name, help string, value float64, labels ...string) {
	metric(ch, prometheus.GaugeValue, name, help, value, labels...)
}

func counter(ch chan<- prometheus.Metric, name, help string, value float64, labels ...string) {
	metric(ch, prometheus.CounterValue, name, help, value, labels...)
}

// brokerMetrics are the log's figures.
type brokerMetrics struct {
	stats      func() core.Stats
	partitions func() []core.PartitionStats
}

// Describe sends nothing: an unchecked collector.
func (m *brokerMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends a snapshot.
func (m *brokerMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.stats()
	counter(ch, "broker_network_in_bytes_total", "Bytes of requests read.", float64(s.BytesIn))
	counter(ch, "broker_network_out_bytes_total", "Bytes of answers written.", float64(s.BytesOut))
	counter(ch, "broker_produced_records_total", "Records appended by clients.", float64(s.ProducedRecords))
	counter(ch, "broker_produced_bytes_total", "Bytes of record batches appended by clients.", float64(s.ProducedBytes))
	counter(ch, "broker_fetched_bytes_total", "Bytes of record batches answered to fetches.", float64(s.FetchedBytes))
	counter(ch, "broker_produce_errors_total", "Partitions of produce requests answered with an error.", float64(s.ProduceErrors))
	counter(ch, "broker_malformed_frames_total", "Frames that could not be decoded.", float64(s.MalformedFrames))
	counter(ch, "broker_connections_accepted_total", "Connections accepted.", float64(s.ConnectionsAccepted))
	counter(ch, "broker_connections_refused_total", "Connections refused.", float64(s.ConnectionsRefused))
	gauge(ch, "broker_connections", "Connections open.", float64(s.Connections))
	gauge(ch, "broker_request_memory_bytes", "Bytes of requests held.", float64(s.RequestBytesInUse))
	gauge(ch, "broker_request_memory_limit_bytes", "Bound of bytes of requests held.", float64(s.RequestBytesLimit))
	gauge(ch, "broker_topics", "Topics.", float64(s.Topics))
	gauge(ch, "broker_partitions", "Partitions.", float64(s.Partitions))
	gauge(ch, "broker_log_bytes", "Bytes of all logs.", float64(s.LogBytes))
	m.cluster(ch, &s.Cluster)
	for _, r := range s.Requests {
		if r.Count == 0 {
			continue
		}
		buckets, sum := map[float64]uint64{}, int64(0)
		for i, bound := range s.LatencyBounds {
			sum += r.Buckets[i]
			buckets[bound.Seconds()] = uint64(sum)
		}
		desc := prometheus.NewDesc("weir_broker_request_seconds", "Time from a request's decoding to its answer; a fetch's wait included.", []string{"api"}, nil)
		ch <- prometheus.MustNewConstHistogram(desc, uint64(r.Count), r.Sum.Seconds(), buckets, r.Name)
	}
	for _, p := range m.partitions() {
		labels := []string{"topic", p.Topic, "partition", strconv.Itoa(int(p.Partition))}
		gauge(ch, "broker_partition_end_offset", "High watermark of a partition.", float64(p.HighWatermark), labels...)
		gauge(ch, "broker_partition_start_offset", "Log start offset of a partition.", float64(p.StartOffset), labels...)
		gauge(ch, "broker_partition_bytes", "Bytes of a partition's log.", float64(p.SizeBytes), labels...)
	}
}

func (m *brokerMetrics) cluster(ch chan<- prometheus.Metric, c *core.ClusterStats) {
	leads := 0.0
	if c.IsMetadataLeader {
		leads = 1
	}
	gauge(ch, "broker_metadata_leader", "1 while this node leads the metadata's group.", leads)
	gauge(ch, "broker_nodes", "Nodes that are registered.", float64(c.Nodes))
	gauge(ch, "broker_nodes_active", "Nodes that may lead partitions.", float64(c.ActiveNodes))
	gauge(ch, "broker_partitions_leaderless", "Partitions of the cluster that nobody leads.", float64(c.Leaderless))
	gauge(ch, "broker_partitions_led", "Partitions that this node leads.", float64(c.Led))
	gauge(ch, "broker_partitions_under_replicated", "Partitions led here of which a replica is not in sync.", float64(c.UnderReplicated))
	gauge(ch, "broker_partitions_under_min_isr", "Partitions led here with fewer replicas in sync than min.insync.replicas.", float64(c.UnderMinISR))
}

// workerMetrics are the connectors' figures.
type workerMetrics struct{ stats func() worker.Stats }

// Describe sends nothing: an unchecked collector.
func (m *workerMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends a snapshot.
func (m *workerMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.stats()
	held := 0.0
	if s.HoldsGroup {
		held = 1
	}
	gauge(ch, "connect_group_held", "1 while this worker is a member of its group and runs its share.", held)
	gauge(ch, "connect_connectors", "Connectors.", float64(len(s.Connectors)))
	gauge(ch, "connect_tasks", "Tasks.", float64(len(s.Tasks)))
	for _, c := range s.Connectors {
		gauge(ch, "connect_connector_state", "1 for the state that the connector is in.", 1, "connector", c.Name, "type", c.Type, "class", c.Class, "state", string(c.State))
	}
	for i := range s.Tasks {
		m.task(ch, &s.Tasks[i])
	}
}

func (m *workerMetrics) task(ch chan<- prometheus.Metric, t *worker.TaskStats) {
	labels := []string{"connector", t.ID.Connector, "task", strconv.Itoa(t.ID.Task), "type", t.Type}
	gauge(ch, "connect_task_state", "1 for the state that the task is in.", 1, append(labels, "state", string(t.State))...)
	counter(ch, "connect_task_records_in_total", "Records taken from the source or the log.", float64(t.In), labels...)
	counter(ch, "connect_task_records_out_total", "Records written to the log or taken by the sink.", float64(t.Out), labels...)
	counter(ch, "connect_task_records_filtered_total", "Records that a transform dropped.", float64(t.Filtered), labels...)
	counter(ch, "connect_task_records_dead_lettered_total", "Records in the dead-letter topic.", float64(t.DeadLettered), labels...)
	counter(ch, "connect_task_records_skipped_total", "Records skipped by errors.tolerance.", float64(t.Skipped), labels...)
	gauge(ch, "connect_task_records_in_flight", "Records taken and not yet ended.", float64(t.InFlight), labels...)
	counter(ch, "connect_task_bytes_total", "Encoded bytes of keys and values.", float64(t.BytesOut), labels...)
	counter(ch, "connect_task_batches_total", "Batches polled or put.", float64(t.Batches), labels...)
	counter(ch, "connect_task_commits_total", "Commits of offsets.", float64(t.Commits), labels...)
	counter(ch, "connect_task_commit_failures_total", "Commits of offsets that failed.", float64(t.CommitFailures), labels...)
	gauge(ch, "connect_task_commit_seconds", "How long the last commit took.", t.CommitLast.Seconds(), labels...)
	gauge(ch, "connect_task_commit_max_seconds", "How long the longest commit took.", t.CommitMax.Seconds(), labels...)
	if !t.CommitLastAt.IsZero() {
		gauge(ch, "connect_task_commit_timestamp_seconds", "When the last commit was.", float64(t.CommitLastAt.UnixMilli())/1000, labels...)
	}
	counter(ch, "connect_task_errors_total", "Records that failed at some stage, tolerated or not.", float64(t.Errors), labels...)
	counter(ch, "connect_task_retries_total", "Calls repeated.", float64(t.Retries), labels...)
	counter(ch, "connect_task_restarts_total", "Automatic restarts.", float64(t.Restarts), labels...)
	for _, l := range t.Lag {
		if l.Lag >= 0 {
			gauge(ch, "connect_sink_lag_records", "Records between a sink's committed offset and the partition's end.", float64(l.Lag),
				"connector", t.ID.Connector, "task", strconv.Itoa(t.ID.Task), "topic", l.Topic, "partition", strconv.Itoa(int(l.Partition)))
		}
	}
	for _, g := range t.Gauges {
		gauge(ch, "connect_task_"+g.Name, "A figure of the connector's own.", g.Value, labels...)
	}
}

// snapshot is the status page's view of the node.
func (n *node) snapshot() console.Snapshot {
	s := console.Snapshot{Version: version, Started: n.started, Ready: true, Connectors: consoleConnectors(n.worker)}
	if n.broker != nil {
		n.snapshotBroker(&s)
	} else {
		s.ClusterID, s.NodeID = n.worker.Server().ClusterID, -1
		s.Addresses = []console.Address{{What: "Kafka (elsewhere)", Addr: n.cfg.connect["bootstrap.servers"]}}
	}
	s.Addresses = append(s.Addresses, console.Address{What: "Connect REST", Addr: "http://" + n.cfg.connectAddr}, console.Address{What: "console", Addr: "http://" + n.cfg.consoleAddr})
	if err := n.ready(); err != nil {
		s.Ready, s.NotReady = false, err.Error()
	}
	return s
}

func (n *node) snapshotBroker(s *console.Snapshot) {
	s.ClusterID, s.NodeID = n.broker.ClusterID(), n.broker.ID()
	s.Addresses = []console.Address{{What: "Kafka", Addr: n.cfg.kafkaAddr}}
	stats := n.broker.Stats()
	s.Figures = []console.Figure{
		{Name: "records produced", Value: strconv.FormatInt(stats.ProducedRecords, 10)}, {Name: "partitions", Value: strconv.Itoa(stats.Partitions)},
		{Name: "connections", Value: strconv.Itoa(stats.Connections)}, {Name: "data", Value: fmt.Sprintf("%.1f MiB", float64(stats.LogBytes)/(1<<20))},
	}
	for _, p := range n.broker.Partitions() {
		if k := len(s.Topics) - 1; k < 0 || s.Topics[k].Name != p.Topic {
			s.Topics = append(s.Topics, console.Topic{Name: p.Topic, Internal: p.Topic[0] == '_'})
		}
		t := &s.Topics[len(s.Topics)-1]
		t.Partitions++
		t.Records += p.HighWatermark - p.StartOffset
		t.Bytes += p.SizeBytes
	}
}

// consoleConnectors are those of the whole group; figures are shown of what runs here.
func consoleConnectors(w *worker.Worker) []console.Connector {
	stats := w.Stats()
	here := map[worker.TaskID]*worker.TaskStats{}
	for i := range stats.Tasks {
		here[stats.Tasks[i].ID] = &stats.Tasks[i]
	}
	var out []console.Connector
	for _, name := range w.Connectors() {
		info, err := w.Info(name)
		if err != nil {
			continue // deleted meanwhile
		}
		row := console.Connector{Name: name, Type: info.Type, Class: info.Config["connector.class"]}
		status, err := w.Status(name)
		if err == nil {
			row.State, row.Reason = string(status.Connector.State), status.Connector.Trace
		}
		for _, t := range status.Tasks {
			if figures := here[worker.TaskID{Connector: name, Task: t.ID}]; figures != nil {
				row.Tasks = append(row.Tasks, consoleTask(figures, t.Trace))
				continue
			}
			elsewhere := console.Task{ID: t.ID, State: string(t.State), Reason: t.Trace, Lag: -1, LagText: "-"}
			if t.Trace == "" {
				elsewhere.Reason = "at worker " + t.WorkerID
			}
			row.Tasks = append(row.Tasks, elsewhere)
		}
		out = append(out, row)
	}
	return out
}

func consoleTask(t *worker.TaskStats, trace string) console.Task {
	row := console.Task{ID: t.ID.Task, State: string(t.State), Reason: trace, In: t.In, Out: t.Out, Filtered: t.Filtered,
		DeadLettered: t.DeadLettered, Skipped: t.Skipped, Restarts: t.Restarts, Lag: -1, LagText: "-"}
	if t.RetryReason != "" {
		row.Reason = fmt.Sprintf("attempt %d: %s", t.RetryAttempt, t.RetryReason)
	}
	for _, l := range t.Lag {
		if l.Lag >= 0 {
			row.Lag = max(row.Lag, 0) + l.Lag
		}
	}
	if row.Lag >= 0 {
		row.LagText = strconv.FormatInt(row.Lag, 10)
	}
	for _, g := range t.Gauges {
		switch g.Name {
		case "milliseconds_behind_source":
			row.LagText = time.Duration(g.Value * float64(time.Millisecond)).Round(time.Millisecond).String()
		}
	}
	return row
}
