package elasticsearch

import (
	"fmt"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

// BenchmarkPut measures documents of 1 KiB, each with an id of its own, into a server in the same process that parses the
// bodies.
func BenchmarkPut(b *testing.B) {
	connecttest.BenchmarkSink(b, connecttest.Suite{Connector: Connector(), NewSink: func(t testing.TB) connecttest.SinkWorld {
		w := newServer(t).world()
		w.Record = func(i int) (key, value connect.Data) {
			return connecttest.JSON(fmt.Appendf(nil, `{"id":%d}`, i)), connecttest.Kilobyte(i)
		}
		return w
	}}, 500)
}
