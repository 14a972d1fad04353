// Package connectors lists the connectors that are built into weir.
//
// The one function, [All], gives them as values; cmd puts them into the worker's table beside those that plugins serve.
// Invariant: names and aliases are distinct over all of them (the test sees to it).
//
// Neighbours: connectors/* hold one foreign system each; connect is their contract.
package connectors

import (
	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/elasticsearch"
	"github.com/weirlog/weir/connectors/file"
	"github.com/weirlog/weir/connectors/mysql"
	"github.com/weirlog/weir/connectors/postgres"
	"github.com/weirlog/weir/connectors/s3"
)

// All gives every connector that is built in, in the order in which they are listed.
func All() []connect.Connector {
	return []connect.Connector{
		file.Source(),
		file.Sink(),
		postgres.Connector(),
		mysql.MySQL(),
		mysql.MariaDB(),
		s3.Connector(),
		elasticsearch.Connector(),
		elasticsearch.OpenSearch(),
	}
}
