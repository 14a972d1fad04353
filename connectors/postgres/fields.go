package postgres

import (
	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

const groupSlot = "Slot and publication"

// fields lists every key that the connector knows: Debezium's names and defaults.
func fields() []connect.Field {
	var all []connect.Field
	for _, part := range [][]connect.Field{
		connectionFields(), tableFields(), debezium.TableFields("schema"), snapshotFields(),
		debezium.EventFields("adaptive", "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"), eventFields(),
		slotFields(), debezium.FlowFields(), flowFields(), refusedFields(), ignoredFields(),
	} {
		all = append(all, part...)
	}
	return all
}

func connectionFields() []connect.Field {
	const g = debezium.GroupConnection
	return []connect.Field{
		{Name: "topic.prefix", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g,
			Doc: "Logical name of the server: prefix of all topics and the key of the stored offset. Changing it starts anew.", Aliases: []string{"database.server.name"}},
		{Name: "database.hostname", Type: connect.TypeString, Required: true, Importance: connect.High, Group: g, Doc: "Host name or address of the server."},
		{Name: "database.port", Type: connect.TypeInt, Default: "5432", Min: debezium.Bound(1), Max: debezium.Bound(65535), Importance: connect.High, Group: g, Doc: "Port of the server."},
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
		{Name: "connection.validation.timeout.ms", Type: connect.TypeLong, Default: "60000", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "How long connecting may take."},
	}
}

func tableFields() []connect.Field {
	return []connect.Field{
		debezium.ListField("schema.include.list", "Regular expressions of the schemas to capture; not beside schema.exclude.list."),
		debezium.ListField("schema.exclude.list", "Regular expressions of the schemas to leave out."),
	}
}

func snapshotFields() []connect.Field {
	const g = debezium.GroupSnapshot
	return []connect.Field{
		{Name: "snapshot.mode", Type: connect.TypeString, Default: "initial", Importance: connect.Medium, Group: g,
			Valid: []string{"initial", "initial_only", "no_data", "always", "when_needed", "never"},
			Doc:   "When to read the tables: initial (once), initial_only (once, then no streaming), no_data (never), always (at each start), when_needed (initial, and when the stored position is lost). never is the old name of no_data."},
		{Name: "snapshot.fetch.size", Type: connect.TypeInt, Default: "10240", Min: debezium.Bound(1), Importance: connect.Low, Group: g,
			Doc: "Debezium's rows per fetch. Rows are streamed here, so memory is bounded without it."},
	}
}

func eventFields() []connect.Field {
	const g = debezium.GroupEvents
	return []connect.Field{
		{Name: "hstore.handling.mode", Type: connect.TypeString, Default: "json", Valid: []string{"json", "map"}, Importance: connect.Low, Group: g, Doc: "How hstore is given."},
		{Name: "interval.handling.mode", Type: connect.TypeString, Default: "numeric", Valid: []string{"numeric", "string"}, Importance: connect.Low, Group: g, Doc: "How interval is given."},
		{Name: "money.fraction.digits", Type: connect.TypeShort, Default: "2", Min: debezium.Bound(0), Max: debezium.Bound(18), Importance: connect.Low, Group: g, Doc: "Fraction digits of money."},
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
	const g = debezium.GroupFlow
	return []connect.Field{
		{Name: "status.update.interval.ms", Type: connect.TypeInt, Default: "10000", Min: debezium.Bound(1), Importance: connect.Low, Group: g, Doc: "How often the server is told the confirmed position, at the latest."},
	}
}

// refusedFields are keys of Debezium that would change the data and are not supported.
func refusedFields() []connect.Field {
	no := debezium.Refused
	return append(debezium.RefusedFields(),
		no("include.unknown.datatypes", connect.TypeBool, "false", "Columns of types that have no mapping, as bytes."),
		no("replica.identity.autoset.values", connect.TypeString, "", "Set REPLICA IDENTITY at start."),
		no("message.prefix.include.list", connect.TypeString, "", "Logical decoding messages."),
		no("message.prefix.exclude.list", connect.TypeString, "", "Logical decoding messages."),
		no("topic.naming.strategy", connect.TypeClass, "io.debezium.schema.SchemaTopicNamingStrategy", "How topics are named."),
		no("sourceinfo.struct.maker", connect.TypeClass, "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", "How the source block is made."),
		no("xmin.fetch.interval.ms", connect.TypeLong, "0", "Put xmin into events."),
		no("lsn.flush.mode", connect.TypeString, "connector", "Who confirms positions to the server."),
		no("slot.stream.params", connect.TypeString, "", "Parameters of the decoding plugin."),
	)
}

// ignoredFields are keys of Debezium that mean nothing here, or change no data: known, and without effect.
func ignoredFields() []connect.Field {
	quiet := debezium.Ignored
	return append(debezium.IgnoredFields(),
		quiet("database.sslfactory", connect.TypeString, ""), quiet("database.initial.statements", connect.TypeString, ""),
		quiet("database.on.connect.statements", connect.TypeString, ""), quiet("snapshot.lock.timeout.ms", connect.TypeLong, "10000"),
		quiet("snapshot.locking.mode", connect.TypeString, "none"), quiet("snapshot.isolation.mode", connect.TypeString, "serializable"),
		quiet("snapshot.max.threads", connect.TypeInt, "1"), quiet("slot.max.retries", connect.TypeInt, "6"),
		quiet("slot.retry.delay.ms", connect.TypeLong, "10000"), quiet("schema.refresh.mode", connect.TypeString, "columns_diff"),
		quiet("lsn.flush.timeout.ms", connect.TypeLong, "30000"), quiet("lsn.flush.timeout.action", connect.TypeString, "fail"),
		quiet("flush.lsn.source", connect.TypeBool, "true"),
	)
}
