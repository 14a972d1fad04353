package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

func TestConformance(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		source := MySQL()
		if d.server.dialect.String() == "mariadb" {
			source = MariaDB()
		}
		connecttest.Run(t, connecttest.Suite{
			Connector: source,
			BadConfigs: map[string]connect.Config{
				"no host":         {"topic.prefix": "srv"},
				"two table lists": {"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "table.include.list": "a.b", "table.exclude.list": "c.d"},
			},
			NewSource: func(t testing.TB) connecttest.SourceWorld {
				d := newDB(t, d.server.dialect)
				d.exec(`CREATE TABLE t (id int PRIMARY KEY, v varchar(20))`)
				last := 0
				return connecttest.SourceWorld{
					Config: d.config("snapshot.mode", "no_data", "max.batch.size", "8"),
					Add: func(n int) {
						insert := func(count int) {
							var rows []string
							for range count {
								last++
								rows = append(rows, fmt.Sprintf("(%d, 'v%d')", last, last))
							}
							if rows != nil {
								d.exec("INSERT INTO t VALUES " + strings.Join(rows, ","))
							}
						}
						insert(n / 2)
						insert(n - n/2)
					},
				}
			},
		})
	})
}
