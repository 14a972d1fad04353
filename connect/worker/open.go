package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/core/kafka"
)

// taskSpec is what a task is run from.
type taskSpec struct {
	id   TaskID
	raw  map[string]string // the connector's configuration as stored
	task map[string]string // the task's as stored
}

// runTask is one life of a task: everything is opened, run, drained and closed.
func (w *Worker) runTask(ctx context.Context, l *life, spec taskSpec) error {
	p, err := w.prepare(spec.id.Connector, spec.raw)
	if err != nil {
		return err
	}
	log := w.deps.Log.With("component", "task", "connector", spec.id.Connector, "task", spec.id.Task)
	pipe, err := w.pipeline(p.config)
	if err != nil {
		return err
	}
	task, err := w.task(ctx, p, spec)
	if err != nil {
		return err
	}
	count := l.slot.count
	tol := newTolerance(p.common, log, count)
	dlq, err := w.openDeadLetters(p, spec.id, log, count)
	if err != nil {
		return err
	}
	defer dlq.close()
	if p.connector.Sink != nil {
		return w.runSink(ctx, l, p, task, &sinkRunner{w: w, id: spec.id, class: p.connector.Name, lazy: p.connector.Lazy,
			life: l, pipe: pipe, tol: tol, dlq: dlq, count: count, log: log})
	}
	return w.runSource(ctx, l, p, task, &sourceRunner{w: w, id: spec.id, class: p.connector.Name, acks: p.connector.Acks,
		life: l, pipe: pipe, tol: tol, dlq: dlq, count: count, log: log})
}

// task makes what the connector's Source or Sink is given: secrets resolved, offsets as they are now.
func (w *Worker) task(ctx context.Context, p *prepared, spec taskSpec) (connect.Task, error) {
	if p.connector.Source != nil {
		if err := w.offsets.table.readToEnd(ctx); err != nil {
			return connect.Task{}, err
		}
	}
	in, err := w.instance(p)
	if err != nil {
		return connect.Task{}, err
	}
	config, _, err := w.resolver.Resolve(spec.task)
	if err != nil {
		return connect.Task{}, fmt.Errorf("resolve references: %w", err)
	}
	in.Log = in.Log.With("task", spec.id.Task)
	t := connect.Task{Instance: in, ID: spec.id.Task, Config: config, MemoryBytes: w.cfg.TaskMemoryBytes / 2}
	if w.cfg.ScratchDir != "" {
		t.ScratchDir = filepath.Join(w.cfg.ScratchDir, fmt.Sprintf("%x-%d", spec.id.Connector, spec.id.Task))
		t.ScratchMax = w.cfg.ScratchMaxBytes
		if err := os.MkdirAll(t.ScratchDir, 0o700); err != nil {
			return connect.Task{}, fmt.Errorf("make scratch folder: %w", err)
		}
	}
	return t, nil
}

func (w *Worker) runSource(ctx context.Context, l *life, p *prepared, t connect.Task, r *sourceRunner) (err error) {
	if r.rules, err = parseTopicRules(p.config); err != nil {
		return connect.BadConfig("topic.creation.groups", err)
	}
	props, err := w.clientProps(p.config, kafka.Producer)
	if err != nil {
		return err
	}
	r.batchBytes = 1 << 20
	if n, err := strconv.Atoi(props["max.request.size"]); err == nil && n > 0 {
		r.batchBytes = n
	}
	if limit, ok := l.slot.batchLimit(); ok {
		r.batchBytes = min(r.batchBytes, limit)
	}
	if err := l.open(ctx, func(ctx context.Context) (err error) {
		r.task, err = p.connector.Source(ctx, t)
		return err
	}); err != nil {
		return fmt.Errorf("open source: %w", err)
	}
	defer w.closeTask(ctx, r.task.Close, &err)
	setDefault(props, "linger.ms", "5")
	setDefault(props, "client.id", fmt.Sprintf("connector-producer-%s-%d", r.id.Connector, r.id.Task))
	opts := []kgo.Opt{kgo.ProducerBatchMaxBytes(int32(r.batchBytes)), kgo.MaxBufferedBytes(int(w.cfg.TaskMemoryBytes / 2)),
		kgo.MaxBufferedRecords(1 << 16)}
	if props["partitioner.class"] == "" && props["partitioner.ignore.keys"] == "" {
		opts = append(opts, kgo.RecordPartitioner(explicitPartitioner{kgo.StickyKeyPartitioner(nil)}))
	}
	if !w.cfg.TopicCreation {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	if props["acks"] == "0" || props["acks"] == "1" {
		r.log.Warn("acks is weaker than all: what is acknowledged can be lost with a broker", "acks", props["acks"])
	}
	if r.client, err = w.client(props, kafka.Producer, r.log, opts); err != nil {
		return err
	}
	defer r.client.Close()
	r.admin = kadm.NewClient(r.client)
	l.slot.watch(r.task.Stats)
	defer l.slot.watch(nil)
	return l.slot.limited(r.run(ctx))
}

func (w *Worker) runSink(ctx context.Context, l *life, p *prepared, t connect.Task, r *sinkRunner) (err error) {
	props, err := w.clientProps(p.config, kafka.Consumer)
	if err != nil {
		return err
	}
	setDefault(props, "group.id", "connect-"+p.name)
	setDefault(props, "auto.offset.reset", "earliest")
	setDefault(props, "client.id", fmt.Sprintf("connector-consumer-%s-%d", r.id.Connector, r.id.Task))
	setDefault(props, "max.poll.records", "5000")
	setDefault(props, "metadata.max.age.ms", "5000") // how soon a new topic that topics.regex matches is read
	setDefault(props, "max.poll.interval.ms", "60000")
	setDefault(props, "session.timeout.ms", "6000") // after a kill the group waits that long for who was killed
	setDefault(props, "fetch.max.wait.ms", "500")   // a partition that comes waits for the fetch that is on its way
	setDefault(props, "partition.assignment.strategy", "CooperativeStickyAssignor,RangeAssignor")
	setDefault(props, "fetch.max.bytes", strconv.FormatInt(w.cfg.TaskMemoryBytes/4, 10))
	props["enable.auto.commit"] = "false"
	r.group = props["group.id"]
	if r.maxRecords, err = strconv.Atoi(props["max.poll.records"]); err != nil || r.maxRecords < 1 {
		return connect.BadConfig("consumer.override.max.poll.records", errors.New("must be a number of at least 1"))
	}
	r.maxBytes = int(w.cfg.TaskMemoryBytes / 8)
	r.reset = kgo.NewOffset().AtStart()
	if strings.EqualFold(props["auto.offset.reset"], "latest") {
		r.reset = kgo.NewOffset().AtEnd()
	}
	if err := l.open(ctx, func(ctx context.Context) (err error) {
		r.task, err = p.connector.Sink(ctx, t)
		return err
	}); err != nil {
		return fmt.Errorf("open sink: %w", err)
	}
	defer w.closeTask(ctx, r.task.Close, &err)
	opts := []kgo.Opt{kgo.BlockRebalanceOnPoll(), kgo.AdjustFetchOffsetsFn(r.assign),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { r.revoked(gone) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { r.lost(gone) }),
		kgo.FetchMaxPartitionBytes(int32(min(w.cfg.TaskMemoryBytes/8, 4<<20))),
	}
	if regex := p.common.String("topics.regex"); regex != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^(?:"+regex+")$"))
	} else {
		opts = append(opts, kgo.ConsumeTopics(p.common.List("topics")...))
	}
	r.open = func(ctx context.Context) (*kgo.Client, error) {
		return w.client(props, kafka.Consumer, r.log, append(opts, kgo.WithContext(ctx)))
	}
	r.side = func() (*kgo.Client, error) {
		alone := maps.Clone(props)
		delete(alone, "group.id")
		delete(alone, "group.instance.id")
		return w.client(alone, kafka.Consumer, r.log, nil)
	}
	l.slot.watch(r.task.Stats)
	defer l.slot.watch(nil)
	return r.run(ctx)
}

func setDefault(props map[string]string, key, value string) {
	if props[key] == "" {
		props[key] = value
	}
}

// client opens a client of a task. Unknown and ignored settings are logged.
func (w *Worker) client(props map[string]string, role kafka.Role, log interface {
	Warn(string, ...any)
}, opts []kgo.Opt) (*kgo.Client, error) {
	// A moved leader is looked for at once, not after the client's usual five seconds.
	opts = append([]kgo.Opt{kgo.MetadataMinAge(metadataMinAge)}, opts...)
	c, warnings, err := kafka.NewClient(props, role, append(opts, w.deps.KafkaOpts...)...)
	for _, warning := range warnings {
		log.Warn("client setting", "about", warning.String())
	}
	if err != nil {
		return nil, connect.BadConfig("", err)
	}
	return c, nil
}

// metadataMinAge is how often a client may ask where partitions are.
const metadataMinAge = 200 * time.Millisecond

// closeLimit bounds a task's Close.
const closeLimit = 10 * time.Second

// closeTask closes a task within its limit; its error is told only if there is no other.
func (w *Worker) closeTask(ctx context.Context, closeFn func(context.Context) error, err *error) {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	if cerr := guard(func() error { return closeFn(ctx) })(); cerr != nil {
		if ended || *err != nil {
			w.deps.Log.Warn("closing a task", "error", cerr)
			return
		}
		*err = fmt.Errorf("close: %w", cerr)
	}
}

// open opens a task, repeating it while it asks for it.
func (l *life) open(ctx context.Context, f func(context.Context) error) error {
	back := backoff{min: 500 * time.Millisecond, max: 30 * time.Second}
	for {
		err := f(ctx)
		if err == nil || connect.KindOf(ctx, err) != connect.KindRetry {
			if err == nil && back.attempt > 0 {
				l.retried()
			}
			return err
		}
		l.slot.count.retries.Add(1)
		if !l.retry(ctx, &back, err) {
			return ctx.Err()
		}
	}
}
