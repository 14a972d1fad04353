package elasticsearch

import "github.com/weirlog/weir/connect"

func bound(n int64) *int64 { return &n }

// fields are Confluent's keys, or Aiven's, with their defaults, and weir's connection.api.key. read.timeout.ms has a longer
// default than Confluent's 3000, which loaded servers exceed. What would change what is written and is not done here is
// refused by name.
func (k kind) fields() []connect.Field {
	onNull, flushTimeout := "fail", "180000"
	malformed := []string{"ignore", "warn", "fail"}
	if k.aiven {
		onNull, flushTimeout = "ignore", "10000"
		malformed = append(malformed, "report")
	}
	out := connectionFields()
	out = append(out, batchFields(flushTimeout)...)
	out = append(out, documentFields(onNull, malformed)...)
	method := connect.Field{Name: k.writeMethod, Type: connect.TypeString, Default: "INSERT", Valid: []string{"INSERT", "UPSERT"}, Importance: connect.Low, Group: "Data Conversion",
		Doc: "INSERT replaces a document, UPSERT merges fields into it. Upserts carry no version: a replay may put old fields back until it has caught up."}
	out = append(out, method)
	if k.aiven {
		return append(out, aivenFields()...)
	}
	return append(out, confluentFields()...)
}

func connectionFields() []connect.Field {
	return []connect.Field{
		{Name: "connection.url", Type: connect.TypeList, Required: true, Importance: connect.High, Group: "Connector", Doc: "Addresses of the server's nodes, such as http://127.0.0.1:9200."},
		{Name: "connection.username", Type: connect.TypeString, Default: "", Importance: connect.Medium, Group: "Connector", Doc: "User of basic authentication."},
		{Name: "connection.password", Type: connect.TypePassword, Default: "", Importance: connect.Medium, Group: "Connector", Doc: "Password of the user."},
		{Name: "connection.api.key", Type: connect.TypePassword, Default: "", Importance: connect.Medium, Group: "Connector", Doc: "API key in its encoded form, instead of a user."},
		{Name: "connection.compression", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: "Connector", Doc: "Whether requests are compressed by gzip."},
		{Name: "connection.timeout.ms", Type: connect.TypeInt, Default: "1000", Min: bound(1), Importance: connect.Low, Group: "Connector", Doc: "Milliseconds to wait for a connection."},
		{Name: "read.timeout.ms", Type: connect.TypeInt, Default: "30000", Min: bound(1), Importance: connect.Low, Group: "Connector", Doc: "Milliseconds to wait for an answer."},
		{Name: "max.connection.idle.time.ms", Type: connect.TypeInt, Default: "60000", Min: bound(0), Importance: connect.Low, Group: "Connector", Doc: "Milliseconds after which an unused connection is closed."},
	}
}

func batchFields(flushTimeout string) []connect.Field {
	return []connect.Field{
		{Name: "batch.size", Type: connect.TypeInt, Default: "2000", Min: bound(1), Max: bound(1_000_000), Importance: connect.Medium, Group: "Connector", Doc: "Documents of one request at most."},
		{Name: "bulk.size.bytes", Type: connect.TypeLong, Default: "5242880", Min: bound(-1), Importance: connect.Low, Group: "Connector", Doc: "Bytes of one request at most; -1 leaves it to the task's memory."},
		{Name: "max.in.flight.requests", Type: connect.TypeInt, Default: "5", Min: bound(1), Max: bound(1000), Importance: connect.Medium, Group: "Connector", Doc: "Requests on their way at a time. Those of one id never overlap."},
		{Name: "max.buffered.records", Type: connect.TypeInt, Default: "20000", Min: bound(1), Importance: connect.Low, Group: "Connector", Doc: "Documents queued or on their way at most; the task's memory bounds their bytes."},
		{Name: "linger.ms", Type: connect.TypeLong, Default: "1", Min: bound(0), Max: bound(7 * 24 * 3600 * 1000), Importance: connect.Low, Group: "Connector", Doc: "Milliseconds that a request waits to be filled."},
		{Name: "flush.timeout.ms", Type: connect.TypeLong, Default: flushTimeout, Min: bound(1), Importance: connect.Low, Group: "Connector", Doc: "Milliseconds after which a flush is shown as retrying. The task goes on."},
		{Name: "flush.synchronously", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: "Connector", Doc: "Accepted; every flush waits for what is on its way."},
		{Name: "max.retries", Type: connect.TypeInt, Default: "5", Min: bound(0), Importance: connect.Low, Group: "Connector", Doc: "Failures in a row before the task shows that it is retrying. It never gives up."},
		{Name: "retry.backoff.ms", Type: connect.TypeLong, Default: "100", Min: bound(0), Importance: connect.Low, Group: "Connector", Doc: "First wait after a failure in milliseconds; it doubles up to 10 s, with jitter."},
	}
}

func documentFields(onNull string, malformed []string) []connect.Field {
	return []connect.Field{
		{Name: "key.ignore", Type: connect.TypeBool, Default: "false", Importance: connect.High, Group: "Data Conversion", Doc: "Whether ids are topic+partition+offset instead of the key."},
		{Name: "topic.key.ignore", Type: connect.TypeList, Default: "", Importance: connect.Low, Group: "Data Conversion", Doc: "Topics for which key.ignore is true."},
		{Name: "schema.ignore", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: "Data Conversion", Doc: "Accepted; the server infers types either way. Make the index or a template first where they matter."},
		{Name: "topic.schema.ignore", Type: connect.TypeList, Default: "", Importance: connect.Low, Group: "Data Conversion", Doc: "Accepted, as schema.ignore."},
		{Name: "compact.map.entries", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Group: "Data Conversion", Doc: "Whether maps with text keys are written as objects instead of lists of key and value."},
		{Name: "drop.invalid.message", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: "Data Conversion", Doc: "Whether records that make no document are left out with a warning."},
		{Name: "use.autogenerated.ids", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Group: "Data Conversion", Doc: "Whether the server makes ids: a replay then adds documents again."},
		{Name: "behavior.on.null.values", Type: connect.TypeString, Default: onNull, Valid: []string{"ignore", "delete", "fail"}, Importance: connect.Low, Group: "Data Conversion", Doc: "What is done with tombstones."},
		{Name: "behavior.on.malformed.documents", Type: connect.TypeString, Default: "fail", Valid: malformed, Importance: connect.Low, Group: "Data Conversion",
			Doc: "What is done with documents that the server refuses. With a dead-letter topic all of them go there; without, ignore and warn leave them out."},
		{Name: "external.version.header", Type: connect.TypeString, Default: "", Importance: connect.Low, Group: "Data Conversion", Doc: "Header with a number that is a document's version instead of the offset."},
	}
}

func confluentFields() []connect.Field {
	return []connect.Field{
		{Name: "data.stream.type", Type: connect.TypeString, Default: "NONE", Refused: "data streams are not supported yet", Importance: connect.Low, Group: "Data Stream", Doc: "Only NONE."},
		{Name: "data.stream.dataset", Type: connect.TypeString, Default: "", Refused: "data streams are not supported yet", Importance: connect.Low, Group: "Data Stream", Doc: "Not supported."},
		{Name: "data.stream.namespace", Type: connect.TypeString, Default: "${topic}", Importance: connect.Low, Group: "Data Stream", Doc: "Of data streams."},
		{Name: "data.stream.timestamp.field", Type: connect.TypeList, Default: "", Importance: connect.Low, Group: "Data Stream", Doc: "Of data streams."},
		{Name: "external.resource.usage", Type: connect.TypeString, Default: "DISABLED", Refused: "write to other names by renaming topics with a transform", Importance: connect.Low, Group: "Connector", Doc: "Only DISABLED."},
		{Name: "topic.to.external.resource.mapping", Type: connect.TypeList, Default: "", Refused: "write to other names by renaming topics with a transform", Importance: connect.Low, Group: "Connector", Doc: "Not supported."},
		{Name: "proxy.host", Type: connect.TypeString, Default: "", Refused: "set HTTPS_PROXY for the worker instead", Importance: connect.Low, Group: "Proxy", Doc: "Not supported."},
		{Name: "elastic.security.protocol", Type: connect.TypeString, Default: "PLAINTEXT", Valid: []string{"PLAINTEXT", "SSL"}, Importance: connect.Medium, Group: "Security", Doc: "Accepted; an https address uses TLS with the machine's authorities."},
		{Name: "kerberos.user.principal", Type: connect.TypeString, Default: "", Refused: "Kerberos is not supported", Importance: connect.Low, Group: "Security", Doc: "Not supported."},
	}
}

func aivenFields() []connect.Field {
	return []connect.Field{
		{Name: "key.ignore.id.strategy", Type: connect.TypeString, Default: "topic.partition.offset", Valid: []string{"none", "record.key", "topic.partition.offset"}, Importance: connect.Low, Group: "Data Conversion", Doc: "Where ids come from with key.ignore: the server, the key, or topic+partition+offset."},
		{Name: "behavior.on.version.conflict", Type: connect.TypeString, Default: "fail", Valid: []string{"ignore", "warn", "report", "fail"}, Importance: connect.Low, Group: "Data Conversion", Doc: "Accepted; a conflict means that a replay met its own or a newer document: it is counted and is success."},
		{Name: "routing.type", Type: connect.TypeString, Default: "none", Refused: "routing is not supported yet", Importance: connect.Low, Group: "Data Conversion", Doc: "Only none."},
		{Name: "data.stream.enabled", Type: connect.TypeBool, Default: "false", Refused: "data streams are not supported yet", Importance: connect.Low, Group: "Data Stream", Doc: "Only false."},
		{Name: "topic.to.existing.resource.mapping", Type: connect.TypeString, Default: "", Refused: "write to other names by renaming topics with a transform", Importance: connect.Low, Group: "Connector", Doc: "Not supported."},
	}
}
