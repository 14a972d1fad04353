package debezium

import "github.com/weirlog/weir/connect"

// Groups of fields, as forms show them.
const (
	GroupConnection = "Connection"
	GroupTables     = "Tables and columns"
	GroupSnapshot   = "Snapshot"
	GroupEvents     = "Events"
	GroupFlow       = "Flow"
	GroupOther      = "Debezium, not in effect"
)

// Bound gives a limit of a field's number.
func Bound(n int64) *int64 { return &n }

// ListField is an include or exclude list of regular expressions.
func ListField(name, doc string) connect.Field {
	return connect.Field{Name: name, Type: connect.TypeList, NoDefault: true, Importance: connect.High, Group: GroupTables, Doc: doc}
}

// TableFields choose tables, columns and keys; a table is written space.table, space being what holds tables.
func TableFields(space string) []connect.Field {
	const g = GroupTables
	return []connect.Field{
		ListField("table.include.list", "Regular expressions of the tables to capture, as "+space+".table; not beside table.exclude.list."),
		ListField("table.exclude.list", "Regular expressions of the tables to leave out, as "+space+".table."),
		ListField("column.include.list", "Regular expressions of the columns to capture, as "+space+".table.column; not beside column.exclude.list."),
		ListField("column.exclude.list", "Regular expressions of the columns to leave out, as "+space+".table.column."),
		{Name: "message.key.columns", Type: connect.TypeString, NoDefault: true, Importance: connect.Medium, Group: g,
			Doc: "Keys of records instead of primary keys: " + space + ".table:column,column;…, the table a regular expression."},
		{Name: "table.ignore.builtin", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: g, Doc: "Leave out the server's own tables."},
		{Name: "snapshot.include.collection.list", Type: connect.TypeList, NoDefault: true, Importance: connect.Medium, Group: GroupSnapshot,
			Doc: "Regular expressions of those captured tables that the snapshot reads, as " + space + ".table."},
	}
}

// EventFields say how values and records look. The modes of times are the connector's.
func EventFields(timeDefault string, timeValid ...string) []connect.Field {
	const g = GroupEvents
	return []connect.Field{
		{Name: "decimal.handling.mode", Type: connect.TypeString, Default: "precise", Valid: []string{"precise", "double", "string"}, Importance: connect.Medium, Group: g, Doc: "How decimal numbers are given."},
		{Name: "time.precision.mode", Type: connect.TypeString, Default: timeDefault, Importance: connect.Medium, Group: g,
			Valid: timeValid, Doc: "How dates and times are given."},
		{Name: "binary.handling.mode", Type: connect.TypeString, Default: "bytes", Valid: []string{"bytes", "base64", "base64-url-safe", "hex"}, Importance: connect.Low, Group: g, Doc: "How bytes are given."},
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

// FlowFields say how much is taken at a time, and how often a sign of life is written.
func FlowFields() []connect.Field {
	const g = GroupFlow
	return []connect.Field{
		{Name: "max.batch.size", Type: connect.TypeInt, Default: "2048", Min: Bound(1), Max: Bound(1 << 20), Importance: connect.Medium, Group: g, Doc: "Records of one batch at most."},
		{Name: "poll.interval.ms", Type: connect.TypeLong, Default: "500", Min: Bound(1), Importance: connect.Medium, Group: g, Doc: "Debezium's pause between polls. Changes are waited for here, so there is none."},
		{Name: "heartbeat.interval.ms", Type: connect.TypeInt, Default: "0", Min: Bound(0), Importance: connect.Medium, Group: g, Doc: "How often to write a record into the heartbeat topic; 0: never. The position moves without it."},
		{Name: "heartbeat.action.query", Type: connect.TypeString, NoDefault: true, Importance: connect.Low, Group: g, Doc: "Statement to run on the database with each heartbeat."},
		{Name: "topic.heartbeat.prefix", Type: connect.TypeString, Default: "__debezium-heartbeat", Importance: connect.Low, Group: g, Doc: "Prefix of the heartbeat topic's name.", Aliases: []string{"heartbeat.topics.prefix"}},
		{Name: "retriable.restart.connector.wait.ms", Type: connect.TypeLong, Default: "10000", Min: Bound(0), Importance: connect.Low, Group: g, Doc: "Longest pause before a lost connection is made again."},
	}
}

const refusedText = "not supported by this connector, and leaving it out would change the data; remove the key"

// Refused is a key of Debezium's that would change the data and is not supported: any value but the default is refused by
// name. No default ("") means that any value is.
func Refused(name string, t connect.FieldType, def, doc string) connect.Field {
	return connect.Field{Name: name, Type: t, Default: def, NoDefault: def == "", Importance: connect.Low, Group: GroupOther, Doc: doc, Refused: refusedText}
}

// Ignored is a key of Debezium's that means nothing here, or changes no data: known, and without effect.
func Ignored(name string, t connect.FieldType, def string) connect.Field {
	return connect.Field{Name: name, Type: t, Default: def, NoDefault: def == "", Importance: connect.Low, Group: GroupOther, Doc: "Accepted for Debezium's sake; without effect."}
}

// RefusedFields are those that every connector refuses.
func RefusedFields() []connect.Field {
	out := []connect.Field{
		Refused("provide.transaction.metadata", connect.TypeBool, "false", "Transaction topic and fields."),
		Refused("signal.data.collection", connect.TypeString, "", "Table of signals."),
		Refused("incremental.snapshot.watermarking.strategy", connect.TypeString, "INSERT_INSERT", "Watermarks of incremental snapshots."),
		Refused("converters", connect.TypeString, "", "Custom converters."),
		Refused("post.processors", connect.TypeString, "", "Post processors."),
		Refused("include.schema.comments", connect.TypeBool, "false", "Comments in schemas."),
		Refused("skip.messages.without.change", connect.TypeBool, "false", "Leave out updates that change no captured column."),
		Refused("column.propagate.source.type", connect.TypeString, "", "Source types as schema parameters."),
		Refused("datatype.propagate.source.type", connect.TypeString, "", "Source types as schema parameters."),
		Refused("snapshot.select.statement.overrides", connect.TypeString, "", "Own statements of the snapshot."),
		Refused("snapshot.mode.custom.name", connect.TypeString, "", "Own snapshot mode."),
		Refused("snapshot.query.mode", connect.TypeString, "select_all", "How the snapshot selects."),
		Refused("topic.heartbeat.name", connect.TypeString, "", "Whole name of the heartbeat topic."),
		Refused("custom.sanitize.pattern", connect.TypeString, "", "Own pattern of secrets."),
		Refused("read.only", connect.TypeBool, "false", "Capture from a standby."),
	}
	for _, p := range []string{"column.mask.with.", "column.mask.hash.", "column.truncate.to."} {
		f := Refused(p, connect.TypeList, "", "Masked and truncated columns.")
		f.Prefix = true
		out = append(out, f)
	}
	return out
}

// IgnoredFields are those that have no effect in any connector.
func IgnoredFields() []connect.Field {
	return []connect.Field{
		Ignored("max.queue.size", connect.TypeInt, "8192"),
		Ignored("max.queue.size.in.bytes", connect.TypeLong, "0"),
		Ignored("database.query.timeout.ms", connect.TypeInt, "600000"),
		Ignored("snapshot.delay.ms", connect.TypeLong, "0"),
		Ignored("streaming.delay.ms", connect.TypeLong, "0"),
		Ignored("snapshot.tables.order.by.row.count", connect.TypeString, "disabled"),
		Ignored("incremental.snapshot.chunk.size", connect.TypeInt, "1024"),
		Ignored("incremental.snapshot.allow.schema.changes", connect.TypeBool, "false"),
		Ignored("signal.enabled.channels", connect.TypeString, "source"),
		Ignored("signal.poll.interval.ms", connect.TypeLong, "5000"),
		Ignored("notification.enabled.channels", connect.TypeString, ""),
		Ignored("notification.sink.topic.name", connect.TypeString, ""),
		Ignored("topic.cache.size", connect.TypeInt, "10000"),
		Ignored("topic.transaction", connect.TypeString, "transaction"),
		Ignored("custom.metric.tags", connect.TypeString, ""),
		Ignored("errors.max.retries", connect.TypeInt, "-1"),
		Ignored("event.processing.failure.handling.mode", connect.TypeString, "fail"),
		Ignored("event.converting.failure.handling.mode", connect.TypeString, "warn"),
		Ignored("query.fetch.size", connect.TypeInt, "0"),
		Ignored("poll.dispatch.interval.ms", connect.TypeLong, "0"),
		Ignored("executor.shutdown.timeout.ms", connect.TypeLong, "4000"),
		Ignored("guardrail.collections.max", connect.TypeInt, "0"),
		Ignored("guardrail.collections.limit.action", connect.TypeString, "warn"),
	}
}
