package postgres

import "github.com/weirlog/weir/connect"

// Groups of fields, as forms show them.
const (
	groupConnection = "Connection"
	groupTables     = "Tables and columns"
	groupSnapshot   = "Snapshot"
	groupEvents     = "Events"
	groupSlot       = "Slot and publication"
	groupFlow       = "Flow"
	groupOther      = "Debezium, not in effect"
)

func bound(n int64) *int64 { return &n }

// fields lists every key that the connector knows: Debezium's names and defaults.
func fields() []connect.Field {
	var all []connect.Field
	for _, part := range [][]connect.Field{
		connectionFields(), tableFields(), snapshotFields(), eventFields(), slotFields(), flowFields(), refusedFields(), ignoredFields(),
	} {
		all = append(all, part...)
	}
	return all
}

func connectionFields() []connect.Field {
	const g = groupConnection
	return []connect.Field{
		{Name: "topic.prefix", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g,
			Doc: "Logical name of the server: prefix of all topics and the key of the stored offset. Changing it starts anew.", Aliases: []string{"database.server.name"}},
		{Name: "database.hostname", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "Host name or address of the server."},
		{Name: "database.port", Type: connect.TypeInt, Default: "5432", Min: bound(1), Max: bound(65535), Importance: connect.High, Group: g, Doc: "Port of the server."},
		{Name: "database.user", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "Role to connect as; it needs LOGIN, REPLICATION and SELECT on the tables."},
		{Name: "database.password", Type: connect.TypePassword, NoDefault: true, Importance: connect.High, Group: g, Doc: "The role's password."},
		{Name: "database.dbname", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "Database to capture."},
		{Name: "database.sslmode", Type: connect.TypeString, Default: "prefer", Importance: connect.Medium, Group: g,
			Valid: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}, Doc: "How to use TLS."},
		{Name: "database.sslcert", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File with the client's certificate (PEM)."},
		{Name: "database.sslkey", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File with the client's key (PEM)."},
		{Name: "database.sslpassword", Type: connect.TypePassword, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "Password of the client's key."},
		{Name: "database.sslrootcert", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g, Doc: "File with the authorities that may have signed the server's certificate (PEM)."},
		{Name: "database.tcpKeepAlive", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: g, Doc: "Keep TCP connections alive."},
		{Name: "connection.validation.timeout.ms", Type: connect.TypeLong, Default: "60000", Min: bound(1), Importance: connect.Low, Group: g, Doc: "How long connecting may take."},
	}
}

func tableFields() []connect.Field {
	const g = groupTables
	list := func(name, doc string) connect.Field {
		return connect.Field{Name: name, Type: connect.TypeList, NoDefault: true, Importance: connect.High, Group: g, Doc: doc}
	}
	return []connect.Field{
		list("schema.include.list", "Regular expressions of the schemas to capture; not beside schema.exclude.list."),
		list("schema.exclude.list", "Regular expressions of the schemas to leave out."),
		list("table.include.list", "Regular expressions of the tables to capture, as schema.table; not beside table.exclude.list."),
		list("table.exclude.list", "Regular expressions of the tables to leave out, as schema.table."),
		list("column.include.list", "Regular expressions of the columns to capture, as schema.table.column; not beside column.exclude.list."),
		list("column.exclude.list", "Regular expressions of the columns to leave out, as schema.table.column."),
		{Name: "message.key.columns", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g,
			Doc: "Keys of records instead of primary keys: schema.table:column,column;…, the table a regular expression."},
		{Name: "table.ignore.builtin", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: g, Doc: "Leave out the server's own tables."},
	}
}

func snapshotFields() []connect.Field {
	const g = groupSnapshot
	return []connect.Field{
		{Name: "snapshot.mode", Type: connect.TypeString, Default: "initial", Importance: connect.Medium, Group: g,
			Valid: []string{"initial", "initial_only", "no_data", "always", "when_needed", "never"},
			Doc:   "When to read the tables: initial (once), initial_only (once, then no streaming), no_data (never), always (at each start), when_needed (initial, and when the stored position is lost). never is the old name of no_data."},
		{Name: "snapshot.fetch.size", Type: connect.TypeInt, Default: "10240", Min: bound(1), Importance: connect.Low, Group: g,
			Doc: "Debezium's rows per fetch. Rows are streamed here, so memory is bounded without it."},
		{Name: "snapshot.include.collection.list", Type: connect.TypeList, NoDefault: true, Importance: connect.Medium, Group: g,
			Doc: "Regular expressions of those captured tables that the snapshot reads, as schema.table."},
	}
}

func eventFields() []connect.Field {
	const g = groupEvents
	return []connect.Field{
		{Name: "decimal.handling.mode", Type: connect.TypeString, Default: "precise", Valid: []string{"precise", "double", "string"}, Importance: connect.Medium, Group: g, Doc: "How numeric and money are given."},
		{Name: "time.precision.mode", Type: connect.TypeString, Default: "adaptive", Importance: connect.Medium, Group: g,
			Valid: []string{"adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"}, Doc: "How dates and times are given."},
		{Name: "binary.handling.mode", Type: connect.TypeString, Default: "bytes", Valid: []string{"bytes", "base64", "base64-url-safe", "hex"}, Importance: connect.Low, Group: g, Doc: "How bytea is given."},
		{Name: "hstore.handling.mode", Type: connect.TypeString, Default: "json", Valid: []string{"json", "map"}, Importance: connect.Low, Group: g, Doc: "How hstore is given."},
		{Name: "interval.handling.mode", Type: connect.TypeString, Default: "numeric", Valid: []string{"numeric", "string"}, Importance: connect.Low, Group: g, Doc: "How interval is given."},
		{Name: "money.fraction.digits", Type: connect.TypeShort, Default: "2", Min: bound(0), Max: bound(18), Importance: connect.Low, Group: g, Doc: "Fraction digits of money."},
		{Name: "tombstones.on.delete", Type: connect.TypeBool, Default: "true", Importance: connect.Medium, Group: g, Doc: "Follow a delete with a record without value, so that compaction removes the key."},
		{Name: "skipped.operations", Type: connect.TypeList, Default: "t", Valid: []string{"c", "u", "d", "t", "none"}, Importance: connect.Low, Group: g, Doc: "Operations that give no record."},
		{Name: "unavailable.value.placeholder", Type: connect.TypeString, Default: "__debezium_unavailable_value", Importance: connect.Medium, Group: g, Doc: "What stands for a long value that the server did not send because it did not change; hex: before bytes."},
		{Name: "extended.headers.enabled", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: g, Doc: "Put headers with the connector's name, task and run on each record."},
		{Name: "topic.delimiter", Type: connect.TypeString, Default: ".", Importance: connect.Low, Group: g, Doc: "Between the parts of a topic's name."},
		{Name: "schema.name.adjustment.mode", Type: connect.TypeString, Default: "none", Valid: []string{"none", "avro", "avro_unicode"}, Importance: connect.Low, Group: g, Doc: "How schema names are made fit for the converter."},
		{Name: "field.name.adjustment.mode", Type: connect.TypeString, Default: "none", Valid: []string{"none", "avro", "avro_unicode"}, Importance: connect.Low, Group: g, Doc: "How field names are made fit for the converter."},
		{Name: "compat.debezium.version", Type: connect.TypeString, Default: "3.6.1.Final", Importance: connect.Low, Group: g, Doc: "The version that events name in source.version."},
	}
}

func slotFields() []connect.Field {
	const g = groupSlot
	return []connect.Field{
		{Name: "plugin.name", Type: connect.TypeString, Default: "pgoutput", Importance: connect.Medium, Group: g,
			Refused: "only pgoutput is supported, which every server since PostgreSQL 10 has; remove the key, and give a slot.name of its own, since a slot made for another plugin can't be read with pgoutput",
			Doc:     "Logical decoding plugin of the server."},
		{Name: "slot.name", Type: connect.TypeString, Default: "debezium", Importance: connect.Medium, Group: g, Doc: "Replication slot; made if it is not there."},
		{Name: "slot.drop.on.stop", Type: connect.TypeBool, Default: "false", Importance: connect.Medium, Group: g, Doc: "Drop the slot when the task stops in an orderly way. What is written meanwhile is lost: for tests."},
		{Name: "slot.failover", Type: connect.TypeBool, Default: "false", Importance: connect.Medium, Group: g, Doc: "Make the slot one that is kept in step on standbys (PostgreSQL 17 and later)."},
		{Name: "publication.name", Type: connect.TypeString, Default: "dbz_publication", Importance: connect.Medium, Group: g, Doc: "Publication to stream."},
		{Name: "publication.autocreate.mode", Type: connect.TypeString, Default: "all_tables", Valid: []string{"all_tables", "disabled", "filtered", "no_tables"}, Importance: connect.Medium, Group: g,
			Doc: "How the publication is made: for all tables (needs a superuser), not at all, for the captured tables (kept in step at each start), or empty."},
		{Name: "publish.via.partition.root", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: g, Doc: "Give the changes of partitions as those of the partitioned table."},
		{Name: "offset.mismatch.strategy", Type: connect.TypeString, Default: "no_validation", Valid: []string{"no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"}, Importance: connect.Low, Group: g,
			Doc: "What to do when the slot is ahead of the stored offset, so that changes between them are gone: trust_slot and trust_greater_lsn go on from the slot; the others stop with the reason."},
	}
}

func flowFields() []connect.Field {
	const g = groupFlow
	return []connect.Field{
		{Name: "max.batch.size", Type: connect.TypeInt, Default: "2048", Min: bound(1), Max: bound(1 << 20), Importance: connect.Medium, Group: g, Doc: "Records of one batch at most."},
		{Name: "poll.interval.ms", Type: connect.TypeLong, Default: "500", Min: bound(1), Importance: connect.Medium, Group: g, Doc: "Debezium's pause between polls. Changes are waited for here, so there is none."},
		{Name: "status.update.interval.ms", Type: connect.TypeInt, Default: "10000", Min: bound(1), Importance: connect.Low, Group: g, Doc: "How often the server is told the confirmed position, at the latest."},
		{Name: "heartbeat.interval.ms", Type: connect.TypeInt, Default: "0", Min: bound(0), Importance: connect.Medium, Group: g, Doc: "How often to write a record into the heartbeat topic; 0: never. The position moves without it."},
		{Name: "heartbeat.action.query", Type: connect.TypeString, NoDefault: true, Importance: connect.Low, Group: g, Doc: "Statement to run on the database with each heartbeat."},
		{Name: "topic.heartbeat.prefix", Type: connect.TypeString, Default: "__debezium-heartbeat", Importance: connect.Low, Group: g, Doc: "Prefix of the heartbeat topic's name.", Aliases: []string{"heartbeat.topics.prefix"}},
		{Name: "retriable.restart.connector.wait.ms", Type: connect.TypeLong, Default: "10000", Min: bound(0), Importance: connect.Low, Group: g, Doc: "Longest pause before a lost connection is made again."},
	}
}

// refusedFields are keys of Debezium that would change the data and are not supported: any other value than the default
// is refused by name.
func refusedFields() []connect.Field {
	no := func(name string, t connect.FieldType, def, doc string) connect.Field {
		return connect.Field{Name: name, Type: t, Default: def, NoDefault: def == "", Importance: connect.Low, Group: groupOther, Doc: doc,
			Refused: "not supported by this connector, and leaving it out would change the data; remove the key"}
	}
	out := []connect.Field{
		no("provide.transaction.metadata", connect.TypeBool, "false", "Transaction topic and fields."),
		no("signal.data.collection", connect.TypeString, "", "Table of signals."),
		no("incremental.snapshot.watermarking.strategy", connect.TypeString, "INSERT_INSERT", "Watermarks of incremental snapshots."),
		no("converters", connect.TypeString, "", "Custom converters."),
		no("post.processors", connect.TypeString, "", "Post processors."),
		no("include.unknown.datatypes", connect.TypeBool, "false", "Columns of types that have no mapping, as bytes."),
		no("include.schema.comments", connect.TypeBool, "false", "Comments in schemas."),
		no("skip.messages.without.change", connect.TypeBool, "false", "Leave out updates that change no captured column."),
		no("column.propagate.source.type", connect.TypeString, "", "Source types as schema parameters."),
		no("datatype.propagate.source.type", connect.TypeString, "", "Source types as schema parameters."),
		no("replica.identity.autoset.values", connect.TypeString, "", "Set REPLICA IDENTITY at start."),
		no("snapshot.select.statement.overrides", connect.TypeString, "", "Own statements of the snapshot."),
		no("snapshot.mode.custom.name", connect.TypeString, "", "Own snapshot mode."),
		no("snapshot.query.mode", connect.TypeString, "select_all", "How the snapshot selects."),
		no("message.prefix.include.list", connect.TypeString, "", "Logical decoding messages."),
		no("message.prefix.exclude.list", connect.TypeString, "", "Logical decoding messages."),
		no("topic.heartbeat.name", connect.TypeString, "", "Whole name of the heartbeat topic."),
		no("custom.sanitize.pattern", connect.TypeString, "", "Own pattern of secrets."),
		no("topic.naming.strategy", connect.TypeClass, "io.debezium.schema.SchemaTopicNamingStrategy", "How topics are named."),
		no("sourceinfo.struct.maker", connect.TypeClass, "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", "How the source block is made."),
		no("xmin.fetch.interval.ms", connect.TypeLong, "0", "Put xmin into events."),
		no("lsn.flush.mode", connect.TypeString, "connector", "Who confirms positions to the server."),
		no("slot.stream.params", connect.TypeString, "", "Parameters of the decoding plugin."),
		no("read.only", connect.TypeBool, "false", "Capture from a standby."),
	}
	for _, p := range []string{"column.mask.with.", "column.mask.hash.", "column.truncate.to."} {
		f := no(p, connect.TypeList, "", "Masked and truncated columns.")
		f.Prefix = true
		out = append(out, f)
	}
	return out
}

// ignoredFields are keys of Debezium that mean nothing here, or change no data: known, and without effect.
func ignoredFields() []connect.Field {
	quiet := func(name string, t connect.FieldType, def string) connect.Field {
		return connect.Field{Name: name, Type: t, Default: def, NoDefault: def == "", Importance: connect.Low, Group: groupOther, Doc: "Accepted for Debezium's sake; without effect."}
	}
	return []connect.Field{
		quiet("max.queue.size", connect.TypeInt, "8192"), quiet("max.queue.size.in.bytes", connect.TypeLong, "0"),
		quiet("database.query.timeout.ms", connect.TypeInt, "600000"), quiet("database.sslfactory", connect.TypeString, ""),
		quiet("database.initial.statements", connect.TypeString, ""), quiet("database.on.connect.statements", connect.TypeString, ""),
		quiet("snapshot.delay.ms", connect.TypeLong, "0"), quiet("streaming.delay.ms", connect.TypeLong, "0"),
		quiet("snapshot.lock.timeout.ms", connect.TypeLong, "10000"), quiet("snapshot.locking.mode", connect.TypeString, "none"),
		quiet("snapshot.isolation.mode", connect.TypeString, "serializable"), quiet("snapshot.max.threads", connect.TypeInt, "1"),
		quiet("snapshot.tables.order.by.row.count", connect.TypeString, "disabled"),
		quiet("incremental.snapshot.chunk.size", connect.TypeInt, "1024"), quiet("incremental.snapshot.allow.schema.changes", connect.TypeBool, "false"),
		quiet("signal.enabled.channels", connect.TypeString, "source"), quiet("signal.poll.interval.ms", connect.TypeLong, "5000"),
		quiet("notification.enabled.channels", connect.TypeString, ""), quiet("notification.sink.topic.name", connect.TypeString, ""),
		quiet("slot.max.retries", connect.TypeInt, "6"), quiet("slot.retry.delay.ms", connect.TypeLong, "10000"),
		quiet("schema.refresh.mode", connect.TypeString, "columns_diff"), quiet("topic.cache.size", connect.TypeInt, "10000"),
		quiet("topic.transaction", connect.TypeString, "transaction"), quiet("custom.metric.tags", connect.TypeString, ""),
		quiet("errors.max.retries", connect.TypeInt, "-1"), quiet("event.processing.failure.handling.mode", connect.TypeString, "fail"),
		quiet("event.converting.failure.handling.mode", connect.TypeString, "warn"),
		quiet("query.fetch.size", connect.TypeInt, "0"), quiet("poll.dispatch.interval.ms", connect.TypeLong, "0"),
		quiet("lsn.flush.timeout.ms", connect.TypeLong, "30000"), quiet("lsn.flush.timeout.action", connect.TypeString, "fail"),
		quiet("flush.lsn.source", connect.TypeBool, "true"), quiet("executor.shutdown.timeout.ms", connect.TypeLong, "4000"),
		quiet("guardrail.collections.max", connect.TypeInt, "0"), quiet("guardrail.collections.limit.action", connect.TypeString, "warn"),
	}
}
