package connecttest

import (
	"fmt"
	"testing"

	"github.com/weirlog/weir/connect"
)

// BenchmarkSink measures a sink: b.N records of the suite's in Puts of batch records over one partition, and the flushes
// until all is durable. The bytes per operation are those of a value.
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

// Kilobyte makes a JSON object of about 1 KiB with a few fields of each kind, different for each i.
func Kilobyte(i int) connect.Data {
	const words = "the quick brown fox jumps over the lazy dog and runs away from seven angry bees "
	text := fmt.Appendf(nil, `{"id":%d,"price":%d.25,"active":true,"note":null,"tags":["a","b",%d],"description":"`, i, i%1000, i%7)
	for n := i; len(text) < 1000; n += 13 {
		text = append(text, words[n%40:n%40+40]...)
	}
	return JSON(append(text, `"}`...))
}
