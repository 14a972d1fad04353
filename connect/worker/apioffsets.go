package worker

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/core/kafka"
)

// Offsets reads a connector's offsets: of a source from the offsets topic, of a sink from its consumer group.
func (w *Worker) Offsets(ctx context.Context, name string) (Offsets, error) {
	e, err := w.existing(name)
	if err != nil {
		return Offsets{}, err
	}
	out := Offsets{Offsets: []OffsetEntry{}}
	if c := w.connector(e.config["connector.class"]); c == nil || c.Sink == nil {
		for _, so := range w.offsets.of(name) {
			out.Offsets = append(out.Offsets, OffsetEntry(so))
		}
		return out, nil
	}
	err = w.withGroup(name, e.config, func(admin *kadm.Client, group string) error {
		committed, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			return fmt.Errorf("fetch committed offsets: %w", err)
		}
		for _, o := range committed.Sorted() {
			if o.At >= 0 {
				out.Offsets = append(out.Offsets, sinkEntry(o.Topic, o.Partition, o.At))
			}
		}
		return nil
	})
	return out, err
}

func sinkEntry(topic string, partition int32, offset int64) OffsetEntry {
	return OffsetEntry{
		Partition: connect.OffsetMap{{Name: "kafka_topic", Value: connect.StringValue(topic)}, {Name: "kafka_partition", Value: connect.Int64Value(int64(partition))}},
		Offset:    connect.OffsetMap{{Name: "kafka_offset", Value: connect.Int64Value(offset)}},
	}
}

// withGroup calls f with a client and the consumer group of a sink connector.
func (w *Worker) withGroup(name string, raw map[string]string, f func(*kadm.Client, string) error) error {
	config, _, err := w.resolver.Resolve(raw)
	if err != nil {
		return fmt.Errorf("resolve references: %w", err)
	}
	props, err := w.clientProps(config, kafka.Admin)
	if err != nil {
		return err
	}
	group := config["consumer.override.group.id"]
	if group == "" {
		group = w.cfg.Props["consumer.group.id"]
	}
	if group == "" {
		group = "connect-" + name
	}
	client, _, err := kafka.NewClient(props, kafka.Admin, w.deps.KafkaOpts...)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(kadm.NewClient(client), group)
}

// AlterOffsets changes offsets of a stopped connector and returns Kafka Connect's message. No entries at all
// (nil) reset them all.
func (w *Worker) AlterOffsets(ctx context.Context, name string, entries []OffsetEntry) (string, error) {
	if err := w.leading(); err != nil {
		return "", err
	}
	e, err := w.existing(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	unlock, err := w.lockWrites(ctx) // nobody resumes the connector meanwhile
	if err != nil {
		return "", err
	}
	defer unlock()
	if e, err = w.existing(name); err != nil {
		return "", err
	}
	if e.wanted() != TargetStopped || len(e.tasks) > 0 || w.running(name) {
		return "", badRequest("Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by issuing a 'PUT' request to the '/connectors/%s/stop' endpoint", name)
	}
	c := w.connector(e.config["connector.class"])
	if c == nil {
		return "", badRequest("%s", w.unknownClass(e.config["connector.class"]))
	}
	if c.Sink != nil {
		return w.alterSink(ctx, name, e.config, entries)
	}
	return w.alterSource(ctx, c, name, e.config, entries)
}

// running reports whether tasks of the connector are still ending, here or at another worker of the group.
func (w *Worker) running(name string) bool {
	mine := w.group.current()
	for id := range mine.owners {
		if id.Connector == name && id.Task != connectorTask {
			return true
		}
	}
	for id := range w.runs() {
		if id.Connector == name && id.Task != connectorTask {
			return true
		}
	}
	return mine.owners == nil && !mine.all // who has what is being decided
}

// Messages of Kafka Connect: whether the connector itself has confirmed the change.
const (
	alteredByBoth = "The offsets for this connector have been %s successfully"
	alteredByUs   = "The Connect framework-managed offsets for this connector have been %s successfully. However, if this connector manages offsets externally, they will need to be manually %s in the system that the connector uses."
)

func alteredMessage(confirmed, reset bool) string {
	verb := "altered"
	if reset {
		verb = "reset"
	}
	if confirmed {
		return fmt.Sprintf(alteredByBoth, verb)
	}
	return fmt.Sprintf(alteredByUs, verb, verb)
}

func (w *Worker) alterSource(ctx context.Context, c *connect.Connector, name string, raw map[string]string, entries []OffsetEntry) (string, error) {
	if err := w.offsets.table.readToEnd(ctx); err != nil {
		return "", err
	}
	var changes []connect.SourceOffset
	reset := entries == nil
	if reset {
		for _, so := range w.offsets.of(name) {
			changes = append(changes, connect.SourceOffset{Partition: so.Partition})
		}
	}
	for _, entry := range entries {
		changes = append(changes, connect.SourceOffset(entry))
	}
	if c.AlterOffsets != nil {
		p, err := w.prepare(name, raw)
		if err != nil {
			return "", badRequest("%v", err)
		}
		in, err := w.instance(p)
		if err != nil {
			return "", err
		}
		if err := guard(func() error { return c.AlterOffsets(ctx, in, changes) })(); err != nil {
			return "", badRequest("%v", err)
		}
	}
	if err := w.offsets.put(ctx, name, changes); err != nil {
		return "", err
	}
	if err := w.offsets.table.readToEnd(ctx); err != nil {
		return "", err
	}
	return alteredMessage(c.AlterOffsets != nil, reset), nil
}

func (w *Worker) alterSink(ctx context.Context, name string, raw map[string]string, entries []OffsetEntry) (string, error) {
	reset := entries == nil
	err := w.withGroup(name, raw, func(admin *kadm.Client, group string) error {
		if reset {
			_, err := admin.DeleteGroups(ctx, group)
			return err
		}
		commits, forget := kadm.Offsets{}, kadm.TopicsSet{}
		for _, e := range entries {
			topic, partition, offset, err := parseSinkEntry(e)
			if err != nil {
				return err
			}
			if offset < 0 {
				forget.Add(topic, partition)
			} else {
				commits.AddOffset(topic, partition, offset, -1)
			}
		}
		if len(commits) > 0 {
			if err := admin.CommitAllOffsets(ctx, group, commits); err != nil {
				return fmt.Errorf("commit offsets: %w", err)
			}
		}
		if len(forget) > 0 {
			done, err := admin.DeleteOffsets(ctx, group, forget)
			if err == nil {
				err = done.Error()
			}
			if err != nil {
				return fmt.Errorf("delete offsets: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return alteredMessage(false, reset), nil
}

// parseSinkEntry reads a sink's partition and offset; numbers may be given as text. Offset -1 is a reset.
func parseSinkEntry(e OffsetEntry) (topic string, partition int32, offset int64, err error) {
	number := func(m connect.OffsetMap, key string) (int64, error) {
		v := m.Get(key)
		text := v.Str()
		if v.Kind() >= connect.Int8 && v.Kind() <= connect.Int64 {
			text = strconv.FormatInt(v.Int(), 10)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, badRequest("%s must be a number of at least 0 in %s", key, m)
		}
		return n, nil
	}
	topic = e.Partition.Get("kafka_topic").Str()
	if topic == "" {
		return "", 0, 0, badRequest("The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition': %s", e.Partition)
	}
	p, err := number(e.Partition, "kafka_partition")
	if err != nil {
		return "", 0, 0, err
	}
	if e.Offset == nil {
		return topic, int32(p), -1, nil
	}
	offset, err = number(e.Offset, "kafka_offset")
	return topic, int32(p), offset, err
}

// Stats gives the worker's figures, of what runs here, sorted by name.
func (w *Worker) Stats() Stats {
	out := Stats{HoldsGroup: w.group.holds() == nil}
	for _, u := range w.allUnits() {
		e, ok := w.lookup(u.name)
		if !ok {
			continue
		}
		c := w.connector(e.config["connector.class"])
		cs := ConnectorStats{Name: u.name, Class: e.config["connector.class"], Type: connectorType(c)}
		if c != nil {
			cs.Version = c.Version
		}
		tasks, slots := w.tasks(u)
		if s := slots[connectorTask]; s != nil {
			cs.State = s.shown()
			out.Connectors = append(out.Connectors, cs)
		}
		for _, i := range tasks {
			s := slots[i]
			ts := TaskStats{ID: TaskID{u.name, i}, Class: cs.Class, Type: cs.Type, State: s.shown(), Gauges: s.gauges()}
			s.count.stats(&ts)
			out.Tasks = append(out.Tasks, ts)
		}
	}
	sort.Slice(out.Connectors, func(i, j int) bool { return out.Connectors[i].Name < out.Connectors[j].Name })
	sort.Slice(out.Tasks, func(i, j int) bool {
		a, b := out.Tasks[i].ID, out.Tasks[j].ID
		if c := strings.Compare(a.Connector, b.Connector); c != 0 {
			return c < 0
		}
		return a.Task < b.Task
	})
	return out
}
