package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/klauspost/compress/gzip"

	"github.com/weirlog/weir/connect"
)

var (
	errNull    = errors.New("the value is null: set behavior.on.null.values to ignore or write to go on")
	errNullKey = errors.New("the key is null, and store.kafka.keys stores keys")
)

// sink is the task: partitions, what their files hold, and the way into the bucket.
type sink struct {
	log         *slog.Logger
	settings    *connect.Settings
	bucket      string
	upload      uploader
	connections *http.Transport
	format      format
	scratch     *scratch
	now         func() time.Time
	busy        time.Duration // spent inside Put and Flush: no record can come then, so it is no idleness
	free        time.Time     // the running call's beginning on a clock that stands while the task is busy

	flushSize     int
	rotateMillis  int64         // by the records' time; 0 for never
	idle          time.Duration // < 0 for never
	schedule      time.Duration // 0 for never
	zone          *time.Location
	onNull        string
	places        *partitioner
	rotateOnMove  bool
	keys, headers bool
	memoryMax     int64
	retryAfter    time.Duration
	partitions    map[connect.TopicPartition]*partition
	memory        int64 // bytes of all files' chunks
	line          []byte
	progress      atomic.Uint64
	objects       atomic.Uint64
}

func open(ctx context.Context, task connect.Task) (connect.SinkTask, error) {
	s, err := parse(ctx, task.Config)
	if err != nil {
		return nil, err
	}
	client, connections, err := connectTo(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, client, s); err != nil {
		connections.CloseIdleConnections()
		return nil, err
	}
	k, err := newSink(task, s)
	if err != nil {
		return nil, err
	}
	k.upload.client, k.connections = client, connections
	return k, nil
}

func newSink(task connect.Task, s *connect.Settings) (*sink, error) {
	places, err := newPartitioner(s)
	if err != nil {
		return nil, err
	}
	k := &sink{
		log: task.Log, settings: s, bucket: s.String("s3.bucket.name"), now: time.Now, places: places,
		rotateOnMove: places.layout != nil && s.Bool("rotate.file.on.partition.change"),
		flushSize:    int(s.Int("flush.size")),
		rotateMillis: s.Int("rotate.interval.ms"),
		idle:         s.Millis("rotate.idle.ms"),
		schedule:     max(s.Millis("rotate.schedule.interval.ms"), 0),
		zone:         time.UTC,
		onNull:       strings.ToLower(s.String("behavior.on.null.values")),
		keys:         s.Bool("store.kafka.keys"),
		headers:      s.Bool("store.kafka.headers"),
		scratch:      openScratch(task.ScratchDir, task.ScratchMax),
		memoryMax:    max(task.MemoryBytes, 16<<20) / 2, // the rest: a part on its way, a compressor, one line
		retryAfter:   s.Millis("retry.backoff.ms"),
		partitions:   map[connect.TopicPartition]*partition{},
	}
	if k.schedule > 0 {
		if zone, err := time.LoadLocation(s.String("timezone")); err == nil { // validated
			k.zone = zone
		}
	}
	k.format = format{envelope: s.Bool("json.envelope"), extension: ".json"}
	k.format.text.DecimalNumbers = strings.EqualFold(s.String("json.decimal.format"), "NUMERIC")
	if isClass(s.String("format.class"), bytesFormat) {
		k.format = format{raw: true, extension: s.String("format.bytearray.extension"), separator: []byte(s.String("format.bytearray.separator"))}
	}
	k.upload = uploader{
		bucket:    k.bucket,
		partBytes: int(min(s.Int("s3.part.size"), max(task.MemoryBytes/4, minPartBytes))),
		acl:       types.ObjectCannedACL(s.String("s3.acl.canned")),
		sse:       types.ServerSideEncryption(s.String("s3.ssea.name")),
		progress:  &k.progress,
	}
	if id := s.String("s3.sse.kms.key.id"); id != "" {
		k.upload.kmsKey = &id
	}
	if strings.EqualFold(s.String("s3.compression.type"), "gzip") {
		k.upload.gzip, _ = gzip.NewWriterLevel(io.Discard, int(s.Int("s3.compression.level"))) // the level is validated
	}
	return k, nil
}

// occupied counts the time until done is called as busy.
func (k *sink) occupied() (done func()) {
	start := k.now()
	k.free = start.Add(-k.busy)
	return func() { k.busy += k.now().Sub(start) }
}

func (k *sink) Assign(ctx context.Context, added []connect.Assigned) ([]connect.Start, error) {
	for _, a := range added {
		if err := k.Revoke(ctx, []connect.TopicPartition{a.TopicPartition}); err != nil {
			return nil, err
		}
		k.partitions[a.TopicPartition] = newPartition(a)
	}
	return nil, nil
}

// Revoke drops what is open: the next owner reads it again from what is committed.
func (k *sink) Revoke(_ context.Context, gone []connect.TopicPartition) error {
	for _, tp := range gone {
		p := k.partitions[tp]
		if p == nil {
			continue
		}
		delete(k.partitions, tp)
		if p.open != nil {
			p.closed = append(p.closed, p.open)
		}
		for _, g := range p.closed {
			k.drop(g)
		}
	}
	return nil
}

func (k *sink) Put(ctx context.Context, records []connect.Record) error {
	done := k.occupied()
	defer done()
	if err := k.makeRoom(); err != nil {
		return err
	}
	var p *partition
	for i := range records {
		o := records[i].Origin
		if p == nil || p.Topic != o.Topic || p.Partition != o.Partition {
			if p = k.partitions[connect.TopicPartition{Topic: o.Topic, Partition: o.Partition}]; p == nil {
				return fmt.Errorf("a record of %s-%d, which is not assigned", o.Topic, o.Partition)
			}
		}
		if o.Offset < p.next {
			continue // taken by the call that this one repeats
		}
		if err := k.add(p, &records[i]); err != nil {
			return connect.BadRecord(i, err)
		}
		if k.memory > k.memoryMax {
			if err := k.relieve(); err != nil {
				return err
			}
		}
	}
	k.progress.Add(uint64(len(records)))
	return k.putReady(ctx)
}

// add encodes a record and appends it to its file. After an error nothing has changed.
func (k *sink) add(p *partition, r *connect.Record) error {
	null, err := r.Value.IsNullJSON()
	if err != nil {
		return err
	}
	tombstone := null && !k.format.envelope
	if null {
		switch k.onNull {
		case "fail":
			return errNull
		case "ignore":
			p.advance(r.Origin.Offset, k.flushSize)
			return nil
		}
	}
	encoded, millis := k.settings.String("tombstone.encoded.partition"), r.Timestamp
	if !tombstone {
		if encoded, millis, err = k.places.place(r); err != nil {
			return err
		}
	}
	ends, err := k.encode(r, tombstone)
	if err != nil {
		return err
	}
	now := k.now()
	moved := k.rotateOnMove && !tombstone && p.open != nil && p.open.encoded != "" && p.open.encoded != encoded
	g := p.take(r.Origin.Offset, millis, k.rotateMillis, moved)
	if !tombstone {
		g.encoded = encoded
	}
	if g.records == 0 && k.schedule > 0 {
		g.due = k.nextSchedule(now)
	}
	f := g.file(encoded)
	if f == nil {
		f = &file{encoded: encoded, first: r.Origin.Offset}
		g.files = append(g.files, f)
	}
	start := 0
	for kind, end := range ends {
		before := f.contents[kind].memory
		f.contents[kind].append(k.line[start:end])
		k.memory += f.contents[kind].memory - before
		start = end
	}
	f.last = r.Origin.Offset
	f.records++
	g.records++
	g.touched = k.free
	p.advance(r.Origin.Offset, k.flushSize)
	return nil
}

// encode fills k.line with what goes to each kind of content, one after the other, and gives where each ends.
func (k *sink) encode(r *connect.Record, tombstone bool) (ends [kinds]int, err error) {
	k.line = k.line[:0]
	if k.keys {
		null, err := r.Key.IsNullJSON()
		if err == nil && null {
			err = errNullKey
		}
		if err == nil {
			k.line, err = k.format.text.AppendData(k.line, &r.Key)
		}
		if err != nil {
			return ends, fmt.Errorf("key: %w", err)
		}
		k.line = append(k.line, '\n')
	}
	ends[keysKind] = len(k.line)
	if k.headers && !tombstone {
		if k.line, err = k.format.headers(k.line, r); err != nil {
			return ends, err
		}
		k.line = append(k.line, '\n')
	}
	ends[headersKind] = len(k.line)
	if !tombstone {
		if k.line, err = k.format.record(k.line, r); err != nil {
			return ends, err
		}
	}
	ends[valuesKind] = len(k.line)
	return ends, nil
}

// nextSchedule gives the end of the running span of rotate.schedule.interval.ms, which are counted from midnight.
func (k *sink) nextSchedule(now time.Time) time.Time {
	local := now.In(k.zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, k.zone)
	spans := int64(local.Sub(midnight) / k.schedule)
	return midnight.Add(time.Duration((spans + 1) * int64(k.schedule)))
}

func (k *sink) Flush(ctx context.Context, committed []connect.Committed) (connect.Flushed, error) {
	for _, c := range committed {
		if p := k.partitions[c.TopicPartition]; p != nil {
			p.committed(c)
		}
	}
	done := k.occupied()
	defer done()
	now := k.now()
	for _, p := range k.partitions {
		g := p.open
		if g == nil {
			continue
		}
		idle := k.idle >= 0 && k.free.Sub(g.touched) >= k.idle
		if idle || !g.due.IsZero() && !now.Before(g.due) {
			p.cut()
		}
	}
	if err := k.putReady(ctx); err != nil {
		return connect.Flushed{}, err
	}
	var f connect.Flushed
	for _, p := range k.partitions {
		if c, ok := p.durable(); ok {
			f.Durable = append(f.Durable, c)
		}
	}
	return f, nil
}

// putReady puts the groups whose ends are known to be found again, each partition's in order.
func (k *sink) putReady(ctx context.Context) error {
	for _, p := range k.partitions {
		for len(p.closed) > 0 && p.closed[0].ready {
			g := p.closed[0]
			for _, f := range g.files {
				if f.done {
					continue
				}
				if err := k.putFile(ctx, p, f); err != nil {
					return k.delayed(err)
				}
				f.done = true
			}
			k.drop(g)
			p.put()
		}
	}
	return nil
}

// delayed gives a Retry the wait that the configuration asks for.
func (k *sink) delayed(err error) error {
	var e *connect.Error
	if errors.As(err, &e) && e.Kind == connect.KindRetry {
		return connect.Retry(k.retryAfter, e.Err)
	}
	return err
}

func (k *sink) putFile(ctx context.Context, p *partition, f *file) error {
	var tags *string
	if k.settings.Bool("s3.object.tagging") {
		t := fmt.Sprintf("startOffset=%d&endOffset=%d&recordCount=%d", f.first, f.last, f.records)
		tags = &t
	}
	for kind := range f.contents {
		c := &f.contents[kind]
		if c.empty() {
			continue
		}
		key := k.key(p, f, kind)
		if err := k.upload.put(ctx, key, tags, c.read()); err != nil {
			return classify(ctx, k.bucket, "put object "+key, err)
		}
		k.objects.Add(1)
	}
	k.log.Debug("object put", "topic", p.Topic, "partition", p.Partition, "offset", f.first, "records", f.records)
	return nil
}

// key names an object.
func (k *sink) key(p *partition, f *file, kind int) string {
	delim, dir := k.settings.String("directory.delim"), k.settings.String("topics.dir")
	part := k.settings.String("file.delim")
	var b strings.Builder
	if dir != "" {
		b.WriteString(dir + delim)
	}
	b.WriteString(p.Topic + delim + f.encoded + delim + p.Topic + part + strconv.Itoa(int(p.Partition)) + part)
	fmt.Fprintf(&b, "%0*d", int(k.settings.Int("filename.offset.zero.pad.width")), f.first)
	switch kind {
	case keysKind:
		b.WriteString(".keys.json")
	case headersKind:
		b.WriteString(".headers.json")
	default:
		b.WriteString(k.format.extension)
	}
	if k.upload.gzip != nil {
		b.WriteString(".gz")
	}
	return b.String()
}

// Stats reports objects_put. What is open shows as the partitions' lag.
func (k *sink) Stats() connect.Stats {
	return connect.Stats{Progress: k.progress.Load(), Gauges: []connect.Gauge{{Name: "objects_put", Value: float64(k.objects.Load())}}}
}

func (k *sink) Close(ctx context.Context) error {
	var gone []connect.TopicPartition
	for tp := range k.partitions {
		gone = append(gone, tp)
	}
	err := k.Revoke(ctx, gone)
	k.connections.CloseIdleConnections()
	return err
}
