package s3

import (
	"testing"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/connecttest"
)

func TestPlace(t *testing.T) {
	record := connect.Record{Timestamp: 1_700_000_000_000, Origin: connect.Origin{Partition: 4}, // 2023-11-14T22:13:20Z
		Value: connecttest.JSON([]byte(`{"a":{"b":"x"},"n":7,"at":"2020-02-29T23:59:59+01:00","ms":0,"list":[]}`))}
	for _, c := range []struct {
		name   string
		config connect.Config
		want   string // "" for a refused record
	}{
		{"default", connect.Config{}, "partition=4"},
		{"fields", connect.Config{"partitioner.class": "FieldPartitioner", "partition.field.name": "a.b,n"}, "a.b=x/n=7"},
		{"no such field", connect.Config{"partitioner.class": "FieldPartitioner", "partition.field.name": "a.c"}, ""},
		{"a list", connect.Config{"partitioner.class": "FieldPartitioner", "partition.field.name": "list"}, ""},
		{"hourly", connect.Config{"partitioner.class": hourlyPartition, "timezone": "UTC", "timestamp.extractor": "Record"}, "year=2023/month=11/day=14/hour=22"},
		{"daily elsewhere", connect.Config{"partitioner.class": dailyPartition, "timezone": "Asia/Tokyo", "timestamp.extractor": "Record"}, "year=2023/month=11/day=15"},
		{"by a text", connect.Config{"partitioner.class": dailyPartition, "timezone": "UTC", "timestamp.extractor": "RecordField", "timestamp.field": "at"}, "year=2020/month=02/day=29"},
		{"by a number", connect.Config{"partitioner.class": dailyPartition, "timezone": "UTC", "timestamp.extractor": "RecordField", "timestamp.field": "ms"}, "year=1970/month=01/day=01"},
		{"by nothing", connect.Config{"partitioner.class": dailyPartition, "timezone": "UTC", "timestamp.extractor": "RecordField", "timestamp.field": "a"}, ""},
		{"spans", connect.Config{"partitioner.class": "TimeBasedPartitioner", "timezone": "UTC", "timestamp.extractor": "Record", "partition.duration.ms": "600000",
			"path.format": "'d'yyyyMMdd/HHmm", "directory.delim": "-"}, "d20231114-2210"},
	} {
		c.config["s3.bucket.name"], c.config["flush.size"] = "b", "1"
		s, err := parse(t.Context(), c.config)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		p, err := newPartitioner(s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, _, err := p.place(&record)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestLayoutRefusals(t *testing.T) {
	for _, format := range []string{"", "'open", "YYYY/MMM", "ww"} {
		if got, err := parseLayout(format, "/"); err == nil {
			t.Errorf("%q gives %v", format, got)
		}
	}
}
