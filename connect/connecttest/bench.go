package connecttest

import (
	"testing"

	"github.com/weirlog/weir/connect"
)

// BenchmarkSink measures a sink: b.N records of the suite's in Puts of batch records over one partition, and the flushes
// until all is durable. valueBytes of a record are counted as the bytes per operation.
func BenchmarkSink(b *testing.B, s Suite, batch int) {
	d := NewDriver(b, s.Connector, s.NewSink(b))
	a0, _, _ := partitions()
	_, value := d.record(0)
	text, _, _ := value.Encoded()
	d.Feed(a0, b.N)
	d.OpenTask(benchTask(b, d.world.Config))
	d.Assign(a0)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; d.Put(batch) > 0; i++ {
		if i%64 == 63 {
			d.Flush(true)
		}
	}
	d.Drain()
	b.StopTimer()
	d.Close()
}

func benchTask(b *testing.B, config connect.Config) connect.Task {
	task := newTask(b, config)
	task.MemoryBytes = 64 << 20
	return task
}
