package mysql

import (
	"slices"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/binlog"
)

const (
	groupHistory = "Schema history"
	groupBinlog  = "Binlog"
)

// fields lists every key that the connector knows: Debezium's names and defaults.
func fields(d binlog.Dialect) []connect.Field {
	var all []connect.Field
	for _, part := range [][]connect.Field{
		connectionFields(d), databaseFields(), debezium.TableFields("database"), snapshotFields(),
		debezium.EventFields("adaptive_time_microseconds", "adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds"), eventFields(),
		binlogFields(), historyFields(), debezium.FlowFields(), refusedFields(), ignoredFields(),
	} {
		all = append(all, part...)
	}
	return all
}

func connectionFields(d binlog.Dialect) []connect.Field {
	const g = debezium.GroupConnection
	ssl := "preferred"
	if d == binlog.MariaDB {
		ssl = "disable"
	}
	return []connect.Field{
		{Name: "topic.prefix", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g,
			Doc: "Logical name of the server: prefix of all topics and the key of the stored offset. Changing it starts anew.", Aliases: []string{"database.server.name"}},
		{Name: "database.hostname", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "Host name or address of the server."},
		{Name: "database.port", Type: connect.TypeInt, Default: "3306", Min: debezium.Bound(1), Max: debezium.Bound(65535), Importance: connect.High, Group: g, Doc: "Port of the server."},
		{Name: "database.user", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "User to connect as; it needs SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE and REPLICATION CLIENT."},
		{Name: "database.password", Type: connect.TypePassword, NoDefault: true, Importance: connect.High, Group: g, Doc: "The user's password."},
		{Name: "database.server.id", Type: connect.TypeLong, NoDefault: true, Min: debezium.Bound(1), Max: debezium.Bound(1<<32 - 1), Importance: connect.High, Group: g,
			Doc: "Number as which the connector reads the binlog; it must differ from that of every server and every other reader. Without it a random one is taken."},
		{Name: "database.ssl.mode", Type: connect.TypeString, Default: ssl, Importance: connect.Medium, Group: g,
			Valid: []string{"disabled", "disable", "preferred", "required", "trust", "verify_ca", "verify-ca", "verify_identity", "verify-full"}, Doc: "How to use TLS."},
		{Name: "database.ssl.keystore", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File with the client's key and certificate: PEM, PKCS#12 or JKS."},
		{Name: "database.ssl.keystore.password", Type: connect.TypePassword, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "Password of the key store."},
		{Name: "database.ssl.truststore", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File with the authorities that may have signed the server's certificate: PEM, PKCS#12 or JKS."},
		{Name: "database.ssl.truststore.password", Type: connect.TypePassword, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "Password of the trust store."},
		{Name: "database.initial.statements", Type: connect.TypeString, NoDefault: true, Importance: connect.Low, Group: g, Doc: "Statements to run in each new session, separated by ';' (';;' is a semicolon of a statement)."},
		{Name: "connect.timeout.ms", Type: connect.TypeInt, Default: "30000", Min: debezium.Bound(1), Importance: connect.Medium, Group: g, Doc: "How long connecting may take."},
		{Name: "connect.keep.alive.interval.ms", Type: connect.TypeLong, Default: "60000", Min: debezium.Bound(100), Importance: connect.Low, Group: g,
			Doc: "How long the server may be silent: it is asked for a sign of life within that time, and is taken for gone after three of them."},
	}
}

func databaseFields() []connect.Field {
	return []connect.Field{
		debezium.ListField("database.include.list", "Regular expressions of the databases to capture; not beside database.exclude.list."),
		debezium.ListField("database.exclude.list", "Regular expressions of the databases to leave out."),
	}
}

func snapshotFields() []connect.Field {
	const g = debezium.GroupSnapshot
	return []connect.Field{
		{Name: "snapshot.mode", Type: connect.TypeString, Default: "initial", Importance: connect.Medium, Group: g,
			Valid: []string{"initial", "initial_only", "no_data", "always", "when_needed", "recovery", "never"},
			Doc:   "When to read the tables: initial (once), initial_only (once, then no streaming), no_data (only structures), always (at each start), when_needed (initial, and when the stored position or the schema history is lost), recovery (write the schema history anew from the present structures, keep the position). never is the old name of no_data."},
		{Name: "snapshot.locking.mode", Type: connect.TypeString, Default: "minimal", Importance: connect.Medium, Group: g,
			Valid: []string{"minimal", "extended", "none", "minimal_percona", "minimal_percona_no_table_locks", "minimal_at_least_once"},
			Doc:   "How writers are held off: minimal (while position and structures are read), extended (while the rows are read too), none (no statement may change a structure meanwhile). The other forms of minimal are read as minimal."},
		{Name: "snapshot.lock.timeout.ms", Type: connect.TypeLong, Default: "10000", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "How long the snapshot may wait for a lock."},
		{Name: "snapshot.fetch.size", Type: connect.TypeInt, NoDefault: true, Min: debezium.Bound(1), Importance: connect.Low, Group: g,
			Doc: "Not needed: rows are streamed, so memory is bounded without it, and a snapshot that was cut short goes on at any row."},
	}
}

func eventFields() []connect.Field {
	const g = debezium.GroupEvents
	return []connect.Field{
		{Name: "bigint.unsigned.handling.mode", Type: connect.TypeString, Default: "long", Valid: []string{"long", "precise"}, Importance: connect.Medium, Group: g, Doc: "How BIGINT UNSIGNED is given."},
		{Name: "enable.time.adjuster", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: g, Doc: "Take years below 100 for years of this century or the last."},
		{Name: "include.schema.changes", Type: connect.TypeBool, Default: "true", Importance: connect.Medium, Group: g, Doc: "Write statements that change structures into the topic that topic.prefix names."},
		{Name: "include.query", Type: connect.TypeBool, Default: "false", Importance: connect.Medium, Group: g, Doc: "Put the statement that made a change into source.query, where the server logs it."},
		{Name: "inconsistent.schema.handling.mode", Type: connect.TypeString, Default: "fail", Valid: []string{"fail", "warn", "skip", "ignore"}, Importance: connect.Medium, Group: g,
			Doc: "What to do with the change of a table whose structure is not known: stop, or leave it out with or without a word."},
	}
}

func binlogFields() []connect.Field {
	const g = groupBinlog
	return []connect.Field{
		{Name: "gtid.source.includes", Type: connect.TypeList, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "Regular expressions of the sources (MySQL: UUIDs) whose transactions a position holds; not beside gtid.source.excludes."},
		{Name: "gtid.source.excludes", Type: connect.TypeList, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "Regular expressions of the sources that a position leaves out."},
		{Name: "gtid.source.filter.dml.events", Type: connect.TypeBool, Default: "true", Importance: connect.Medium, Group: g, Doc: "Leave out the changes of sources that are left out."},
	}
}

func historyFields() []connect.Field {
	const g = groupHistory
	key := func(name string) string { return historyPrefix + name }
	prefix := func(name, doc string) connect.Field {
		return connect.Field{Name: key(name), Type: connect.TypeString, Prefix: true, Importance: connect.Low, Group: g, Doc: doc}
	}
	return []connect.Field{
		{Name: "schema.history.internal", Type: connect.TypeClass, Default: "io.debezium.storage.kafka.history.KafkaSchemaHistory", Importance: connect.Low, Group: g, Doc: "Where the history of structures is kept: a topic, or a file."},
		{Name: "include.schema.comments", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: g, Doc: "Comments of tables and columns in schemas, in the history and in schema changes. Those of MariaDB are there too with include.schema.changes, as with Debezium."},
		{Name: key("kafka.topic"), Type: connect.TypeString, NoDefault: true, Importance: connect.High, Group: g, Doc: "Topic of the history: one partition, kept for ever. Made if it is not there. Without it: topic.prefix and .schema-history."},
		{Name: key("kafka.bootstrap.servers"), Type: connect.TypeString, NoDefault: true, Importance: connect.High, Group: g, Doc: "Addresses of the topic's cluster. Without it: the worker's own cluster."},
		{Name: key("file.filename"), Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File of the history, where it is kept in a file."},
		{Name: key("skip.unparseable.ddl"), Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: g, Doc: "Statements that can't be parsed never stop the connector; this leaves them out of the history too."},
		{Name: key("store.only.captured.tables.ddl"), Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: g, Doc: "Keep only the captured tables' statements."},
		{Name: key("store.only.captured.databases.ddl"), Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: g, Doc: "Keep only the captured databases' statements."},
		{Name: key("ddl.filter"), Type: connect.TypeString, Default: defaultDDLFilter, Importance: connect.Low, Group: g, Doc: "Regular expressions of statements that change no structure and are left out of the history."},
		{Name: key("kafka.query.timeout.ms"), Type: connect.TypeInt, Default: "3000", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "Debezium's limit of a question to the cluster; the client's own limits hold."},
		{Name: key("kafka.create.timeout.ms"), Type: connect.TypeInt, Default: "30000", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "How long making the topic may take."},
		{Name: key("kafka.recovery.poll.interval.ms"), Type: connect.TypeInt, Default: "100", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "Debezium's pause between polls of the history. It is read to its end without one."},
		{Name: key("kafka.recovery.attempts"), Type: connect.TypeInt, Default: "100", Min: debezium.Bound(0), Importance: connect.Low, Group: g, Doc: "Debezium's tries without a record. The history is read to its end here."},
		prefix("producer.", "Settings of the producer of the history."),
		prefix("consumer.", "Settings of the consumer of the history."),
	}
}

// defaultDDLFilter names what changes no structure: users and rights, upkeep, views and routines, and what managed servers
// write for themselves.
const defaultDDLFilter = `DROP TEMPORARY TABLE IF EXISTS .+ /\* generated by server \*/,(SET STATEMENT .+ FOR )?(INSERT|UPDATE|DELETE|REPLACE)( INTO| FROM)? mysql\..*,FLUSH .*,` +
	`(CREATE|ALTER|DROP|RENAME) (USER|ROLE).*,(GRANT|REVOKE) .*,SET (PASSWORD|DEFAULT ROLE).*,(ANALYZE|OPTIMIZE|REPAIR|CHECK) .*,` +
	`(CREATE|ALTER|DROP)( OR REPLACE)?( ALGORITHM\s*=\s*\w+)?( DEFINER\s*=\s*\S+)?( SQL SECURITY \w+)? (VIEW|FUNCTION|PROCEDURE|TRIGGER|EVENT|AGGREGATE FUNCTION).*,SAVEPOINT .*,TRUNCATE .*`

// refusedFields are keys of Debezium that would change the data and are not supported.
func refusedFields() []connect.Field {
	no := debezium.Refused
	shared := slices.DeleteFunc(debezium.RefusedFields(), func(f connect.Field) bool { return f.Name == "include.schema.comments" })
	return append(shared,
		no("topic.naming.strategy", connect.TypeClass, "io.debezium.schema.DefaultTopicNamingStrategy", "How topics are named."),
		no("sourceinfo.struct.maker", connect.TypeClass, "", "How the source block is made."),
		no("snapshot.new.tables", connect.TypeString, "off", "Read tables that are captured newly."),
		no("snapshot.locking.mode.custom.name", connect.TypeString, "", "Own locking of the snapshot."),
		no("event.deserialization.failure.handling.mode", connect.TypeString, "fail", "What to do with events that can't be read."),
		no("gtid.ignore.on.recovery", connect.TypeBool, "false", "Recover by file and position though there are GTIDs."),
	)
}

// ignoredFields are keys of Debezium that mean nothing here, or change no data: known, and without effect.
func ignoredFields() []connect.Field {
	quiet := debezium.Ignored
	return append(debezium.IgnoredFields(),
		quiet("database.jdbc.driver", connect.TypeString, ""), quiet("database.jdbc.protocol", connect.TypeString, ""), quiet("database.protocol", connect.TypeString, ""),
		quiet("database.connectionTimeZone", connect.TypeString, ""), quiet("database.server.id.offset", connect.TypeLong, "10000"),
		quiet("binlog.buffer.size", connect.TypeInt, "0"), quiet("min.row.count.to.stream.results", connect.TypeInt, "1000"),
		quiet("snapshot.max.threads", connect.TypeInt, "1"), quiet("connection.validation.timeout.ms", connect.TypeLong, "60000"),
		quiet("connect.keep.alive", connect.TypeBool, "true"), quiet("use.nongraceful.disconnect", connect.TypeBool, "false"), quiet("schema.history.internal.memory.optimization", connect.TypeBool, "false"),
		quiet("schema.history.internal.prefer.ddl", connect.TypeBool, "false"), quiet("schema.history.internal.kafka.buffer.batch.size", connect.TypeInt, "1024"),
		quiet("schema.history.internal.connector.class", connect.TypeString, ""), quiet("schema.history.internal.connector.id", connect.TypeString, ""),
	)
}
