package convert

import (
	"strings"

	"github.com/weirlog/weir/connect"
)

// Formats of encoded data. A record's bytes are passed through only between converters of one format.
const (
	formatJSON       = "json"         // a plain document: schemas.enable=false
	formatJSONSchema = "json+schema"  // {"schema":…,"payload":…}
	formatString     = "string"       // text in UTF-8
	formatBytes      = "bytes"        // as they are
	formatHeader     = "header-value" // literals of the SimpleHeaderConverter
)

// maxPlans bounds the compiled encoders of one converter, maxSchemaBytes the text of the schemas it has parsed.
const (
	maxPlans       = 1000
	maxSchemaBytes = 32 << 20
)

// jsonConverter is Kafka Connect's JsonConverter.
type jsonConverter struct {
	schemas     bool
	replaceNull bool
	writer      jsonWriter
	plans       *cache[*connect.Schema, *plan]

	codec  connect.Codec
	reader jsonReader
	parsed *cache[string, *parsedSchema] // by the schema's text
	recent *parsedSchema
}

// parsedSchema is a schema found in an envelope; a nil plan is the schema null.
type parsedSchema struct {
	text string
	plan *plan
}

func jsonFields() []connect.Field {
	return []connect.Field{
		{Name: "schemas.enable", Type: connect.TypeBool, Default: "true", Importance: connect.High, Doc: "Write and expect the schema beside each value."},
		{Name: "schemas.cache.size", Type: connect.TypeInt, Default: "1000", Importance: connect.High, Doc: "How many schemas are kept per converter."},
		{Name: "decimal.format", Type: connect.TypeString, Default: "BASE64", Valid: []string{"BASE64", "NUMERIC"}, Importance: connect.Low, Doc: "Write decimals as base64 of their unscaled bytes, or as JSON numbers. Both are read."},
		{Name: "replace.null.with.default", Type: connect.TypeBool, Default: "true", Importance: connect.Low, Doc: "Put a field's default in the place of null."},
	}
}

func newJSON(s *connect.Settings) *jsonConverter {
	c := &jsonConverter{
		schemas:     s.Bool("schemas.enable"),
		replaceNull: s.Bool("replace.null.with.default"),
		writer:      jsonWriter{numeric: strings.EqualFold(s.String("decimal.format"), "NUMERIC")},
	}
	size := int(min(max(s.Int("schemas.cache.size"), 2), maxPlans))
	c.plans = newCache[*connect.Schema, *plan](size, maxSchemaBytes)
	c.parsed = newCache[string, *parsedSchema](size, maxSchemaBytes)
	c.codec = connect.Codec{Format: formatJSON, Decode: c.decode}
	if c.schemas {
		c.codec.Format = formatJSONSchema
	}
	return c
}

// Codec is [Converter.Codec].
func (c *jsonConverter) Codec() *connect.Codec { return &c.codec }

// Encode is [Converter.Encode].
func (c *jsonConverter) Encode(dst []byte, _ string, d *connect.Data) ([]byte, bool, error) {
	if b, format, ok := d.Encoded(); ok && format == c.codec.Format {
		return append(dst, b...), false, nil
	}
	if err := d.Decode(); err != nil {
		return dst, false, err
	}
	s, v := d.Schema(), d.Value()
	if s == nil && v.IsNull() {
		return dst, true, nil
	}
	p, err := c.plan(s)
	if err != nil {
		return dst, false, err
	}
	out := dst
	if c.schemas {
		if p == nil {
			out = append(out, `{"schema":null,"payload":`...)
		} else {
			out = append(out, p.head...)
		}
	}
	if out, err = c.writer.value(out, p, v); err != nil {
		return dst, false, err
	}
	if c.schemas {
		out = append(out, '}')
	}
	return out, false, nil
}

func (c *jsonConverter) plan(s *connect.Schema) (*plan, error) {
	if s == nil {
		return nil, nil
	}
	if p, ok := c.plans.get(s); ok {
		return p, nil
	}
	p, err := compile(s, c.replaceNull)
	if err != nil {
		return nil, err
	}
	if c.schemas {
		head, err := c.writer.schema([]byte(`{"schema":`), s, "", false)
		if err != nil {
			return nil, err
		}
		p.head = append(head, `,"payload":`...)
	}
	c.plans.put(s, p, len(p.head)+1)
	return p, nil
}

// decode is the codec's.
func (c *jsonConverter) decode(b []byte) (*connect.Schema, connect.Value, error) {
	p := &c.reader
	p.reset(string(b))
	if !c.schemas {
		if p.peek() == 0 && p.i >= len(p.s) {
			return nil, connect.Value{}, nil
		}
		v, err := p.schemaless()
		return nil, v, err
	}
	if r := c.recent; r != nil && strings.HasPrefix(p.s, envelopeSchema) {
		rest, ok := strings.CutPrefix(p.s[len(envelopeSchema):], r.text)
		if ok && strings.HasPrefix(rest, envelopePayload) {
			p.i = len(envelopeSchema) + len(r.text) + len(envelopePayload)
			v, err := p.orDefault(r.plan)
			if err != nil {
				return nil, connect.Value{}, err
			}
			if p.accept('}') {
				return schemaOf(r.plan), v, nil
			}
			p.reset(p.s)
		}
	}
	return c.envelope(p)
}

// What every envelope that a JsonConverter wrote begins with, and what follows its schema.
const (
	envelopeSchema  = `{"schema":`
	envelopePayload = `,"payload":`
)

func schemaOf(p *plan) *connect.Schema {
	if p == nil {
		return nil
	}
	return p.schema
}

// envelope reads an envelope in any order and spacing.
func (c *jsonConverter) envelope(p *jsonReader) (*connect.Schema, connect.Value, error) {
	fault := func(err error) (*connect.Schema, connect.Value, error) { return nil, connect.Value{}, err }
	notOne := dataErrorf(`schemas.enable=true needs an object of exactly "schema" and "payload"; set schemas.enable=false to read plain JSON`)
	if p.peek() != '{' {
		return fault(notOne)
	}
	if err := p.open(); err != nil {
		return fault(err)
	}
	schema, payload, payloadAt, fields := "", "", 0, map[string]bool{}
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return fault(err)
		}
		if !more {
			break
		}
		name, err := p.name()
		if err != nil {
			return fault(err)
		}
		text, err := p.skip()
		if err != nil {
			return fault(err)
		}
		if fields[name] = true; len(fields) > 2 {
			return fault(notOne)
		}
		switch name {
		case "schema":
			schema = text
		case "payload":
			payload, payloadAt = text, p.i-len(text)
		}
	}
	if schema == "" || payload == "" {
		return fault(notOne)
	}
	parsed, err := c.parse(schema)
	if err != nil {
		return fault(err)
	}
	c.recent = parsed
	p.reset(p.s)
	p.i = payloadAt
	v, err := p.orDefault(parsed.plan)
	if err != nil {
		return fault(err)
	}
	return schemaOf(parsed.plan), v, nil
}

// parse gives the schema of a text, the same pointer for the same text while it is kept.
func (c *jsonConverter) parse(text string) (*parsedSchema, error) {
	if r, ok := c.parsed.get(text); ok {
		return r, nil
	}
	s, err := parseSchema(text)
	if err != nil {
		return nil, err
	}
	p, err := compile(s, c.replaceNull)
	if err != nil {
		return nil, err
	}
	r := &parsedSchema{text: strings.Clone(text), plan: p}
	c.parsed.put(r.text, r, len(text))
	return r, nil
}

// jsonHeaders is the JsonConverter as a header converter.
type jsonHeaders struct{ *jsonConverter }

// Encode is [HeaderConverter.Encode].
func (h jsonHeaders) Encode(dst []byte, topic, _ string, d *connect.Data) ([]byte, bool, error) {
	return h.jsonConverter.Encode(dst, topic, d)
}
