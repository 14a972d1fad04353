package s3

import (
	"strings"

	"github.com/weirlog/weir/connect"
)

// Names of classes that values of keys may have.
const (
	jsonFormat       = "io.confluent.connect.s3.format.json.JsonFormat"
	bytesFormat      = "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"
	s3Storage        = "io.confluent.connect.s3.storage.S3Storage"
	defaultPartition = "io.confluent.connect.storage.partitioner.DefaultPartitioner"
)

func bound(n int64) *int64 { return &n }

// fields are Confluent's keys with their defaults, and weir's own: json.envelope, rotate.idle.ms. What would change where
// or how data is stored and is not done here is refused by name.
func fields() []connect.Field {
	var out []connect.Field
	for _, group := range []struct {
		name   string
		fields []connect.Field
	}{
		{"S3", storeFields()},
		{"Connector", objectFields()},
		{"Partitioner", partitionerFields()},
		{"Storage", nameFields()},
	} {
		for _, f := range group.fields {
			f.Group = group.name
			out = append(out, f)
		}
	}
	return out
}

func storeFields() []connect.Field {
	return []connect.Field{
		{Name: "s3.bucket.name", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The bucket. It must exist."},
		{Name: "s3.region", Type: connect.TypeString, Default: "us-west-2", Importance: connect.Medium, Doc: "The bucket's region."},
		{Name: "store.url", Type: connect.TypeString, NoDefault: true, Importance: connect.Low, Doc: "Address of a store other than AWS, such as http://127.0.0.1:7070."},
		{Name: "s3.path.style.access.enabled", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Doc: "Whether the bucket is named in the path instead of the host."},
		{Name: "aws.access.key.id", Type: connect.TypeString, Default: "", Importance: connect.High, Doc: "Access key id. Empty: the AWS default chain (environment, shared files, instance role)."},
		{Name: "aws.secret.access.key", Type: connect.TypePassword, Default: "", Importance: connect.High, Doc: "Secret access key, with aws.access.key.id."},
		{Name: "s3.part.size", Type: connect.TypeInt, Default: "26214400", Min: bound(minPartBytes), Importance: connect.High, Doc: "Bytes of a part of a large object; at most a quarter of the task's memory is used."},
		{Name: "s3.part.retries", Type: connect.TypeInt, Default: "3", Min: bound(0), Importance: connect.Medium, Doc: "How often a request is repeated before the task shows that it is retrying."},
		{Name: "s3.retry.backoff.ms", Type: connect.TypeLong, Default: "200", Min: bound(0), Importance: connect.Low, Doc: "First wait before a request is repeated, in milliseconds; it doubles."},
		{Name: "retry.backoff.ms", Type: connect.TypeLong, Default: "5000", Min: bound(0), Importance: connect.Low, Doc: "Wait before the task tries again after its requests' repetitions have failed, in milliseconds."},
		{Name: "s3.compression.type", Type: connect.TypeString, Default: "none", Valid: []string{"none", "gzip"}, Importance: connect.Low, Doc: "Compression of objects."},
		{Name: "s3.compression.level", Type: connect.TypeInt, Default: "-1", Min: bound(-1), Max: bound(9), Importance: connect.Low, Doc: "Level of the compression; -1 for its default."},
		{Name: "s3.acl.canned", Type: connect.TypeString, Default: "", Importance: connect.Low, Doc: "Canned ACL of objects, such as bucket-owner-full-control."},
		{Name: "s3.ssea.name", Type: connect.TypeString, Default: "", Valid: []string{"", "AES256", "aws:kms"}, Importance: connect.Low, Doc: "Server-side encryption of objects."},
		{Name: "s3.sse.kms.key.id", Type: connect.TypeString, Default: "", Importance: connect.Low, Doc: "The key of aws:kms encryption."},
		{Name: "s3.sse.customer.key", Type: connect.TypePassword, Default: "", Importance: connect.Low, Refused: "customer keys are not supported: use s3.ssea.name", Doc: "Not supported."},
		{Name: "s3.object.tagging", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Doc: "Whether objects are tagged with startOffset, endOffset and recordCount."},
		{Name: "s3.proxy.url", Type: connect.TypeString, Default: "", Importance: connect.Low, Refused: "set HTTPS_PROXY for the worker instead", Doc: "Not supported."},
		{Name: "s3.credentials.provider.class", Type: connect.TypeClass, Default: "com.amazonaws.auth.DefaultAWSCredentialsProviderChain", Importance: connect.Low, Refused: "provider classes are Java's: use aws.access.key.id or the default chain", Doc: "Not supported but for the default chain."},
	}
}

func objectFields() []connect.Field {
	return []connect.Field{
		{Name: "format.class", Type: connect.TypeClass, Default: jsonFormat, Valid: []string{jsonFormat, "JsonFormat", bytesFormat, "ByteArrayFormat"}, Importance: connect.High, Doc: "Format of objects: JSON lines, or the values' bytes."},
		{Name: "json.envelope", Type: connect.TypeBool, Default: "false", Importance: connect.Medium, Doc: "Whether a JSON line holds the whole record: topic, partition, offset, timestamp, key, value, headers."},
		{Name: "json.decimal.format", Type: connect.TypeString, Default: "BASE64", Valid: []string{"BASE64", "NUMERIC"}, Importance: connect.Low, Doc: "How decimals are written in JSON."},
		{Name: "format.bytearray.extension", Type: connect.TypeString, Default: ".bin", Importance: connect.Low, Doc: "Extension of objects of bytes."},
		{Name: "format.bytearray.separator", Type: connect.TypeString, Default: "\n", Importance: connect.Low, Doc: "What follows each record in objects of bytes."},
		{Name: "flush.size", Type: connect.TypeInt, Required: true, Min: bound(1), Importance: connect.High, Doc: "Records after which an object is closed."},
		{Name: "rotate.interval.ms", Type: connect.TypeLong, Default: "-1", Importance: connect.High, Doc: "Span of the records' own time after which an object is closed, in milliseconds; -1 for none."},
		{Name: "rotate.schedule.interval.ms", Type: connect.TypeLong, Default: "-1", Importance: connect.Medium, Doc: "Span of clock time after which an object is closed, in milliseconds, aligned to midnight of timezone; -1 for none."},
		{Name: "rotate.idle.ms", Type: connect.TypeLong, Default: "1000", Importance: connect.Medium, Doc: "An object is closed when no record has come for so many milliseconds; -1 for never, as Confluent's sink does."},
		{Name: "behavior.on.null.values", Type: connect.TypeString, Default: "fail", Valid: []string{"fail", "ignore", "write"}, Importance: connect.Low, Doc: "What is done with tombstones; write needs json.envelope or store.kafka.keys."},
		{Name: "report.null.values.to.dlq", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Doc: "Accepted; what is refused goes to the dead-letter topic if there is one."},
		{Name: "tombstone.encoded.partition", Type: connect.TypeString, Default: "tombstone", Importance: connect.Low, Doc: "Folder of the keys of tombstones, for behavior.on.null.values=write with store.kafka.keys."},
		{Name: "store.kafka.keys", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Doc: "Whether keys are stored in an object of their own beside each object."},
		{Name: "keys.format.class", Type: connect.TypeClass, Default: "io.confluent.connect.s3.format.avro.AvroFormat", Importance: connect.Low, Doc: "Format of keys; only JsonFormat can be written."},
		{Name: "store.kafka.headers", Type: connect.TypeBool, Default: "false", Importance: connect.Low, Doc: "Whether headers are stored in an object of their own beside each object."},
		{Name: "headers.format.class", Type: connect.TypeClass, Default: "io.confluent.connect.s3.format.avro.AvroFormat", Importance: connect.Low, Doc: "Format of headers; only JsonFormat can be written."},
		{Name: "schema.compatibility", Type: connect.TypeString, Default: "NONE", Importance: connect.High, Refused: "JSON lines need no projection: use NONE", Doc: "Projection of records to one schema; only NONE."},
		{Name: "enable.conditional.writes", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Doc: "Accepted; ends of objects are committed before they are put, so that no overlap has to be found."},
		{Name: "max.write.duration.ms", Type: connect.TypeLong, Default: "9223372036854775807", Importance: connect.Low, Doc: "Accepted; calls are bounded by the worker."},
	}
}

func partitionerFields() []connect.Field {
	return []connect.Field{
		{Name: "partitioner.class", Type: connect.TypeClass, Default: defaultPartition, Valid: partitionerClasses(), Importance: connect.High, Doc: "How records are divided into folders: by their partition, by fields of the value, or by time."},
		{Name: "partitioner.max.open.files", Type: connect.TypeInt, Default: "-1", Importance: connect.Low, Doc: "Accepted; memory is bounded by the task's budget."},
		{Name: "rotate.file.on.partition.change", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Doc: "Whether a record of another time folder closes the open objects, where rotate.interval.ms is set."},
		{Name: "partition.field.name", Type: connect.TypeList, NoDefault: true, Importance: connect.Medium, Doc: "Fields of a FieldPartitioner, nested by dots."},
		{Name: "partition.duration.ms", Type: connect.TypeLong, Default: "-1", Importance: connect.Medium, Doc: "Span of a time folder, in milliseconds."},
		{Name: "path.format", Type: connect.TypeString, Default: "", Importance: connect.Medium, Doc: "Name of a time folder, such as 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH."},
		{Name: "locale", Type: connect.TypeString, Default: "", Importance: connect.Medium, Doc: "Accepted; folders are named by numbers."},
		{Name: "timezone", Type: connect.TypeString, Default: "", Importance: connect.Medium, Doc: "Time zone of time folders and of rotate.schedule.interval.ms, such as Europe/Vienna or UTC."},
		{Name: "timestamp.extractor", Type: connect.TypeString, Default: "Wallclock", Importance: connect.Medium, Doc: "Where a record's time comes from, for folders and rotate.interval.ms: Record or RecordField. Time folders need one of them; Wallclock would move what is read again."},
		{Name: "timestamp.field", Type: connect.TypeString, Default: "timestamp", Importance: connect.Medium, Doc: "Field of RecordField: milliseconds or an ISO 8601 text."},
	}
}

func partitionerClasses() []string {
	var out []string
	for _, class := range []string{defaultPartition, fieldPartition, timePartition, dailyPartition, hourlyPartition} {
		out = append(out, class, class[strings.LastIndexByte(class, '.')+1:])
	}
	return out
}

func nameFields() []connect.Field {
	return []connect.Field{
		{Name: "storage.class", Type: connect.TypeClass, Default: s3Storage, Valid: []string{s3Storage, "S3Storage"}, Importance: connect.High, Doc: "The storage; S3 only."},
		{Name: "topics.dir", Type: connect.TypeString, Default: "topics", Importance: connect.High, Doc: "Folder above those of topics."},
		{Name: "directory.delim", Type: connect.TypeString, Default: "/", Importance: connect.Medium, Doc: "What separates folders."},
		{Name: "file.delim", Type: connect.TypeString, Default: "+", Importance: connect.Medium, Doc: "What separates topic, partition and offset in an object's name."},
		{Name: "filename.offset.zero.pad.width", Type: connect.TypeInt, Default: "10", Min: bound(0), Max: bound(20), Importance: connect.Low, Doc: "Digits of the offset in an object's name."},
	}
}
