package s3

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

func TestContract(t *testing.T) {
	_, good := server.bucket(t)
	with := func(key, value string) connect.Config {
		c := maps.Clone(good)
		c[key] = value
		return c
	}
	connecttest.Run(t, connecttest.Suite{
		Connector: Connector(),
		BadConfigs: map[string]connect.Config{
			"no bucket":     with("s3.bucket.name", "bucket-of-nobody"),
			"wrong secret":  with("aws.secret.access.key", "wrong"),
			"wrong id":      with("aws.access.key.id", "nobody"),
			"no secret":     with("aws.secret.access.key", ""),
			"no flush.size": {"s3.bucket.name": "b"},
			"parquet":       with("format.class", "io.confluent.connect.s3.format.parquet.ParquetFormat"),
			"projection":    with("schema.compatibility", "BACKWARD"),
			"no zone":       with("rotate.schedule.interval.ms", "1000"),
			"write what":    with("behavior.on.null.values", "write"),
			"keys as avro":  with("store.kafka.keys", "true"),
			"bytes enveloped": func() connect.Config {
				c := with("json.envelope", "true")
				c["format.class"] = "ByteArrayFormat"
				return c
			}(),
		},
		NewSink: world,
	})
}

// world is a fresh bucket whose lines are compared with the values that were put.
func world(t testing.TB) connecttest.SinkWorld {
	bucket, config := server.bucket(t)
	return connecttest.SinkWorld{
		Config: config,
		Read:   func() []string { return server.lines(t, bucket) },
		Want: func(records []connect.Record) (lines []string) {
			for _, r := range records {
				b, _, _ := r.Value.Encoded()
				lines = append(lines, string(b))
			}
			return lines
		},
		Poison: func() connect.Data { return connecttest.JSON([]byte(`{"cut off":`)) },
		Stop:   server.stop,
		Start: func() {
			if err := server.start(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// TestSameObjects kills the task between any two steps, in many ways, and compares every object with those of a run that
// nobody disturbed. With objects closed by the clock the ends may differ, but no line may come twice or be missing.
func TestSameObjects(t *testing.T) {
	a0 := connect.TopicPartition{Topic: "t", Partition: 3}
	for _, c := range []struct {
		name  string
		set   connect.Config
		exact bool
	}{
		{"by size", connect.Config{"rotate.idle.ms": "-1"}, true},
		{"by the records' time", connect.Config{"rotate.idle.ms": "-1", "flush.size": "1000", "rotate.interval.ms": "6000"}, true},
		{"in time folders", connect.Config{"rotate.idle.ms": "-1", "flush.size": "11", "partitioner.class": "TimeBasedPartitioner", "partition.duration.ms": "5000",
			"path.format": "HH/mm/ss", "timezone": "UTC", "timestamp.extractor": "Record"}, true},
		{"one time folder at a time", connect.Config{"rotate.idle.ms": "-1", "flush.size": "1000", "partitioner.class": "TimeBasedPartitioner", "partition.duration.ms": "5000",
			"path.format": "HH/mm/ss", "timezone": "UTC", "timestamp.extractor": "Record", "rotate.interval.ms": "60000"}, true},
		{"by the clock", connect.Config{"rotate.idle.ms": "0", "flush.size": "7"}, false},
		{"by the schedule", connect.Config{"rotate.idle.ms": "-1", "flush.size": "1000", "rotate.schedule.interval.ms": "1", "timezone": "UTC"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(disturbed bool) (map[string]string, []string) {
				w := world(t)
				maps.Copy(w.Config, c.set)
				d := connecttest.NewDriver(t, Connector(), w)
				d.Feed(a0, 300)
				d.Open()
				d.Assign(a0)
				for step := 0; d.Put(1+step*5%13) > 0; step++ {
					commit := step%3 != 1
					d.Flush(commit || !disturbed)
					if disturbed && (step%9 == 4 || step%9 == 8) { // in between more than one object's records are put
						d.Kill()
						d.Open()
						d.Assign(a0)
					}
				}
				if !c.exact {
					d.Drain()
				}
				d.Close()
				bucket := w.Config["s3.bucket.name"]
				return server.objects(t, bucket), server.lines(t, bucket)
			}
			quietObjects, quietLines := run(false)
			objects, lines := run(true)
			if len(objects) < 3 {
				t.Fatalf("only %d objects: nothing was tested", len(objects))
			}
			if !slices.Equal(lines, quietLines) {
				t.Errorf("lines differ: %d against %d of the undisturbed run", len(lines), len(quietLines))
			}
			if c.exact && !maps.Equal(objects, quietObjects) {
				t.Errorf("objects differ:\n%v\n%v", slices.Sorted(maps.Keys(objects)), slices.Sorted(maps.Keys(quietObjects)))
			}
		})
	}
}

// TestObjects compares keys and contents for each way of writing.
func TestObjects(t *testing.T) {
	str := func(s string) connect.Data { return connecttest.JSON([]byte(s)) }
	records := func() []connect.Record {
		schema := &connect.Schema{Type: connect.Struct, Fields: []connect.StructField{{Name: "n", Schema: &connect.Schema{Type: connect.Int32}}}}
		rs := []connect.Record{
			{Key: str(`"a"`), Value: str("{\"x\":\n 1}"), Headers: []connect.Header{{Key: "h", Value: connect.DataOf(nil, connect.StringValue("v"))}}},
			{Key: str(`{"id":7}`), Value: connect.DataOf(schema, connect.StructValue([]connect.Value{connect.Int32Value(5)}))},
			{Key: str(`"a"`), Value: connect.Data{}},
			{Key: str(`"b"`), Value: connect.DataOf(nil, connect.BytesValue([]byte("raw")))},
		}
		for i := range rs {
			rs[i].Timestamp = 1000 + int64(i)
			rs[i].Origin = connect.Origin{Topic: "t", Partition: 2, Offset: 40 + int64(i)}
		}
		return rs
	}
	const base = "topics/t/partition=2/t+2+0000000040"
	for _, c := range []struct {
		name string
		set  connect.Config
		bad  int // records that are refused
		want map[string]string
	}{
		{"plain", connect.Config{"behavior.on.null.values": "ignore"}, 0, map[string]string{
			base + ".json": "{\"x\":1}\n{\"n\":5}\n\"cmF3\"\n"}},
		{"null fails", connect.Config{}, 1, map[string]string{
			base + ".json": "{\"x\":1}\n{\"n\":5}\n\"cmF3\"\n"}},
		{"envelope", connect.Config{"json.envelope": "true", "behavior.on.null.values": "write", "topics.dir": "", "file.delim": "-"}, 0, map[string]string{
			"t/partition=2/t-2-0000000040.json": `{"topic":"t","partition":2,"offset":40,"timestamp":1000,"key":"a","value":{"x":1},"headers":[{"key":"h","value":"v"}]}
{"topic":"t","partition":2,"offset":41,"timestamp":1001,"key":{"id":7},"value":{"n":5},"headers":[]}
{"topic":"t","partition":2,"offset":42,"timestamp":1002,"key":"a","value":null,"headers":[]}
{"topic":"t","partition":2,"offset":43,"timestamp":1003,"key":"b","value":"cmF3","headers":[]}
`}},
		{"keys and headers", connect.Config{"store.kafka.keys": "true", "keys.format.class": "JsonFormat", "store.kafka.headers": "true",
			"headers.format.class": jsonFormat, "behavior.on.null.values": "write"}, 0, map[string]string{
			base + ".json":                                "{\"x\":1}\n{\"n\":5}\n\"cmF3\"\n",
			base + ".keys.json":                           "\"a\"\n{\"id\":7}\n\"b\"\n",
			base + ".headers.json":                        "[{\"key\":\"h\",\"value\":\"v\"}]\n[]\n[]\n",
			"topics/t/tombstone/t+2+0000000042.keys.json": "\"a\"\n"}},
		{"bytes", connect.Config{"format.class": "ByteArrayFormat", "behavior.on.null.values": "ignore", "format.bytearray.separator": "|"}, 2, map[string]string{
			"topics/t/partition=2/t+2+0000000043.bin": "raw|"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world(t)
			w.Config["s3.compression.type"] = "none"
			maps.Copy(w.Config, c.set)
			d := connecttest.NewDriver(t, Connector(), w)
			tp := connect.TopicPartition{Topic: "t", Partition: 2}
			d.Log[tp] = records()
			d.Open()
			d.Assign(tp)
			d.Drain()
			d.Close()
			if got := server.objects(t, w.Config["s3.bucket.name"]); !maps.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			if len(d.Bad) != c.bad {
				t.Errorf("refused: %v", d.Bad)
			}
		})
	}
}

// TestMemory lets open objects exceed the task's memory: with a scratch folder they are spilled, without one they are cut
// where a commit allows it. Large objects go in parts.
func TestMemory(t *testing.T) {
	for _, scratchMax := range []int64{1 << 30, 0} {
		w := world(t)
		maps.Copy(w.Config, connect.Config{"flush.size": "400", "rotate.idle.ms": "-1", "s3.compression.type": "none"})
		d := connecttest.NewDriver(t, Connector(), w)
		tp := connect.TopicPartition{Topic: "t"}
		filler := strings.Repeat("x", 100<<10)
		for i := range 400 {
			text, err := json.Marshal(map[string]any{"i": i, "filler": filler})
			if err != nil {
				t.Fatal(err)
			}
			d.FeedData(tp, connect.Data{}, connecttest.JSON(text))
		}
		task := connect.Task{Config: w.Config, Instance: connect.Instance{Log: quiet()}, ScratchDir: t.TempDir(), ScratchMax: scratchMax, MemoryBytes: 1}
		d.OpenTask(task)
		d.Assign(tp)
		k := d.Task().(*sink)
		for d.Put(20) > 0 {
			if k.memory > k.memoryMax+30*110<<10 {
				t.Fatalf("open files hold %d bytes of at most %d", k.memory, k.memoryMax)
			}
			d.Flush(true)
		}
		d.Kill() // what the early cuts have left open is closed by a task that closes at once
		w.Config["rotate.idle.ms"] = "0"
		d.OpenTask(task)
		d.Assign(tp)
		d.Drain()
		d.Close()
		objects := server.objects(t, w.Config["s3.bucket.name"])
		if scratchMax > 0 && len(objects) != 1 {
			t.Errorf("with a scratch folder there are %d objects", len(objects))
		}
		if scratchMax == 0 && (len(objects) < 2 || len(objects) > 50) {
			t.Errorf("without a scratch folder there are %d objects", len(objects))
		}
		if got, want := server.lines(t, w.Config["s3.bucket.name"]), w.Want(d.Records()); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%d lines differ from %d records", len(got), len(want))
		}
	}
}
