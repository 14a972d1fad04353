package s3

import (
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

// BenchmarkPut measures JSON lines of 1 KiB into compressed objects of a real server.
func BenchmarkPut(b *testing.B) {
	for _, compression := range []string{"none", "gzip"} {
		b.Run(compression, func(b *testing.B) {
			connecttest.BenchmarkSink(b, connecttest.Suite{Connector: Connector(), NewSink: func(t testing.TB) connecttest.SinkWorld {
				w := world(t)
				w.Config["s3.compression.type"] = compression
				w.Config["flush.size"] = "10000"
				w.Record = func(i int) (key, value connect.Data) { return connect.Data{}, connecttest.Kilobyte(i) }
				return w
			}}, 500)
		})
	}
}
