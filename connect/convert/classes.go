package convert

import "github.com/weirlog/weir/connect"

// Where Kafka's classes live.
const (
	jsonPackage       = "org.apache.kafka.connect.json."
	storagePackage    = "org.apache.kafka.connect.storage."
	convertersPackage = "org.apache.kafka.connect.converters."
)

// classes is the table of all converters. A class that is both a converter and a header converter stands twice.
func classes() []class {
	out := []class{
		{
			info:       info(jsonPackage, "JsonConverter", "json", jsonFields()),
			open:       func(s *connect.Settings, _ bool) (Converter, error) { return newJSON(s), nil },
			openHeader: func(s *connect.Settings) (HeaderConverter, error) { return jsonHeaders{newJSON(s)}, nil },
		},
		{
			info: info(storagePackage, "StringConverter", "string", stringFields()),
			open: func(s *connect.Settings, _ bool) (Converter, error) { return newString(s) },
			openHeader: func(s *connect.Settings) (HeaderConverter, error) {
				c, err := newString(s)
				return stringHeaders{c}, err
			},
		},
		{
			info:       info(storagePackage, "SimpleHeaderConverter", "simple", nil),
			open:       func(*connect.Settings, bool) (Converter, error) { return simpleConverter{newSimpleHeaders()}, nil },
			openHeader: func(*connect.Settings) (HeaderConverter, error) { return newSimpleHeaders(), nil },
		},
		{
			info:       info(convertersPackage, "ByteArrayConverter", "bytes", nil),
			open:       func(*connect.Settings, bool) (Converter, error) { return newBytes(), nil },
			openHeader: func(*connect.Settings) (HeaderConverter, error) { return bytesHeaders{newBytes()}, nil },
		},
		fixed("BooleanConverter", "boolean", connect.Bool),
		fixed("ShortConverter", "short", connect.Int16),
		fixed("IntegerConverter", "integer", connect.Int32),
		fixed("LongConverter", "long", connect.Int64),
		fixed("FloatConverter", "float", connect.Float32),
		fixed("DoubleConverter", "double", connect.Float64),
	}
	for _, c := range out {
		c.info.Kind = KindHeaderConverter
		out = append(out, c)
	}
	return out
}

func fixed(simple, short string, k connect.Kind) class {
	return class{
		info:       info(convertersPackage, simple, short, nil),
		open:       func(*connect.Settings, bool) (Converter, error) { return newFixed(k), nil },
		openHeader: func(*connect.Settings) (HeaderConverter, error) { return fixedHeaders{newFixed(k)}, nil },
	}
}

func info(pkg, simple, short string, fields []connect.Field) ClassInfo {
	return ClassInfo{Class: pkg + simple, Aliases: []string{simple, short}, Kind: KindConverter, Fields: fields}
}
