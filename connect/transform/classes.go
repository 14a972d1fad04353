package transform

import (
	"strings"

	"github.com/weirlog/weir/connect"
)

// Where the Java classes live.
const (
	kafkaPackage     = "org.apache.kafka.connect.transforms."
	predicatePackage = kafkaPackage + "predicates."
	debeziumPackage  = "io.debezium.transforms."
)

// class is one entry of the table of transforms and predicates.
type class struct {
	info     ClassInfo
	open     openFunc
	openTest func(s *connect.Settings) (testFunc, error)
}

// openFunc makes a transform of its settings, with warnings about them.
type openFunc func(s *connect.Settings) (applyFunc, []string, error)

// sidedFunc is openFunc for a transform that has a variant for keys and one for values.
type sidedFunc func(s *connect.Settings, of side) (applyFunc, []string, error)

// find gives the class of a name, nil for none. Nested Java classes may be written with $ or a dot.
func find(table []class, kind Kind, name string) *class {
	for i := range table {
		info := &table[i].info
		if info.Kind != kind {
			continue
		}
		if name == info.Class || strings.ReplaceAll(info.Class, "$", ".") == name {
			return &table[i]
		}
		for _, a := range info.Aliases {
			if name == a {
				return &table[i]
			}
		}
	}
	return nil
}

// classes is the table of all transforms and predicates.
func classes() []class {
	filter := func(*connect.Settings) (applyFunc, []string, error) {
		return func(*connect.Record) (bool, error) { return false, nil }, nil, nil
	}
	out := []class{
		single(debeziumPackage, "ExtractNewRecordState", "unwrap", unwrapFields(), newUnwrap),
		single(kafkaPackage, "Filter", "filter", nil, filter),
		single(kafkaPackage, "RegexRouter", "regex-router", regexRouterFields(), regexRouter),
		single(kafkaPackage, "TimestampRouter", "timestamp-router", timestampRouterFields(), timestampRouter),
		single(kafkaPackage, "ValueToKey", "value-to-key", []connect.Field{
			{Name: "fields", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "Fields of the value that make the key."}, replaceNull()}, valueToKey),
		single(kafkaPackage, "DropHeaders", "drop-headers", []connect.Field{
			{Name: "headers", Type: connect.TypeList, Required: true, Importance: connect.High, Doc: "The names of headers to remove."}}, dropHeaders),
		single(kafkaPackage, "InsertHeader", "insert-header", []connect.Field{
			{Name: "header", Type: connect.TypeString, Required: true, Importance: connect.High, Doc: "The name of the header."},
			{Name: "value.literal", Type: connect.TypeString, NoDefault: true, Importance: connect.High, Doc: "Its value."}}, insertHeader),
		test("HasHeaderKey", "has-header", hasHeaderKey, connect.Field{Name: "name", Type: connect.TypeString, Required: true, Importance: connect.Medium, Doc: "The name of the header."}),
		test("RecordIsTombstone", "is-tombstone", recordIsTombstone),
		test("TopicNameMatches", "topic-matches", topicNameMatches, connect.Field{Name: "pattern", Type: connect.TypeString, Required: true, Importance: connect.Medium, Doc: "The expression that the topic must match as a whole."}),
	}
	for _, pair := range [][]class{
		sided("Cast", "cast", castFields(), cast),
		sided("ExtractField", "extract-field", extractFieldFields(), extractField),
		sided("Flatten", "flatten", []connect.Field{
			{Name: "delimiter", Type: connect.TypeString, Default: ".", Importance: connect.Medium, Doc: "What stands between the parts of a name."}}, flatten),
		sided("HeaderFrom", "header-from", headerFromFields(), headerFrom),
		sided("HoistField", "hoist-field", []connect.Field{
			{Name: "field", Type: connect.TypeString, Required: true, Importance: connect.Medium, Doc: "The name of the one field."}}, hoistField),
		sided("InsertField", "insert-field", insertFieldFields(), insertField),
		sided("MaskField", "mask-field", maskFieldFields(), maskField),
		sided("ReplaceField", "replace-field", replaceFieldFields(), replaceField),
		sided("SetSchemaMetadata", "set-schema-metadata", []connect.Field{
			{Name: "schema.name", Type: connect.TypeString, NoDefault: true, Importance: connect.High, Doc: "The schema's name."},
			{Name: "schema.version", Type: connect.TypeInt, NoDefault: true, Importance: connect.High, Doc: "The schema's version."}, replaceNull()}, setSchemaMetadata),
		sided("TimestampConverter", "timestamp-converter", timestampConverterFields(), timestampConverter),
	} {
		out = append(out, pair...)
	}
	return out
}

func single(pkg, simple, short string, fields []connect.Field, open openFunc) class {
	return class{info: ClassInfo{Class: pkg + simple, Aliases: []string{simple, short}, Kind: KindTransform, Fields: fields}, open: open}
}

// sided gives the two classes of a transform for keys and values.
func sided(simple, short string, fields []connect.Field, open sidedFunc) []class {
	var out []class
	for _, v := range []struct {
		name string
		of   side
	}{{"Key", keySide}, {"Value", valueSide}} {
		out = append(out, class{
			info: ClassInfo{
				Class:   kafkaPackage + simple + "$" + v.name,
				Aliases: []string{simple + "$" + v.name, short + "-" + strings.ToLower(v.name)},
				Kind:    KindTransform,
				Fields:  fields,
			},
			open: func(s *connect.Settings) (applyFunc, []string, error) { return open(s, v.of) },
		})
	}
	return out
}

func test(simple, short string, open func(*connect.Settings) (testFunc, error), fields ...connect.Field) class {
	return class{info: ClassInfo{Class: predicatePackage + simple, Aliases: []string{simple, short}, Kind: KindPredicate, Fields: fields}, openTest: open}
}
