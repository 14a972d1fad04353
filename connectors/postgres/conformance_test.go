package postgres

import (
	"fmt"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

func TestConformance(t *testing.T) {
	missing := connect.Config{"topic.prefix": "srv"}
	connecttest.Run(t, connecttest.Suite{
		Connector: Connector(),
		BadConfigs: map[string]connect.Config{
			"no host":         missing,
			"other plugin":    {"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "plugin.name": "decoderbufs"},
			"two table lists": {"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "table.include.list": "a.b", "table.exclude.list": "c.d"},
		},
		NewSource: func(t testing.TB) connecttest.SourceWorld {
			d := newDB(t)
			d.exec(`CREATE TABLE t (id int PRIMARY KEY, v text)`)
			last := 0
			return connecttest.SourceWorld{
				Config: d.config("snapshot.mode", "no_data", "max.batch.size", "8"),
				Add: func(n int) {
					half := n / 2
					d.exec(fmt.Sprintf("INSERT INTO t SELECT i, 'v' || i FROM generate_series(%d, %d) i", last+1, last+half))
					d.exec(fmt.Sprintf("INSERT INTO t SELECT i, 'v' || i FROM generate_series(%d, %d) i", last+half+1, last+n))
					last += n
				},
			}
		},
	})
}
