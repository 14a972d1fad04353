package connect

import "slices"

// Names of Kafka Connect's logical types, all of version 1.
const (
	DecimalName   = "org.apache.kafka.connect.data.Decimal"   // Bytes; parameter "scale"
	DateName      = "org.apache.kafka.connect.data.Date"      // Int32, days since 1970-01-01
	TimeName      = "org.apache.kafka.connect.data.Time"      // Int32, milliseconds of the day
	TimestampName = "org.apache.kafka.connect.data.Timestamp" // Int64, milliseconds since the epoch
)

// Schema describes a [Value] with Kafka Connect's vocabulary. It is immutable once it is in a record: converters and
// transforms compile a plan for a *Schema once and find it again by the pointer, so a source hands out the same pointer
// for as long as the shape does not change.
type Schema struct {
	Type     Kind
	Optional bool
	Name     string // logical type or struct name; "" for none
	Version  int    // 0 for none
	Doc      string
	Params   []Param // in the order in which they are written
	Default  *Value  // nil for none
	Fields   []StructField
	Key      *Schema // of a map
	Elem     *Schema // of an array, or a map's values
}

// Param is one named parameter of a schema.
type Param struct{ Name, Value string }

// StructField is one field of a struct's schema; its values stand at the same index in [Value.Items].
type StructField struct {
	Name   string
	Schema *Schema
}

// Field gives the index of a struct's field, or -1.
func (s *Schema) Field(name string) int {
	if s == nil {
		return -1
	}
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Param gives a parameter's value, or "".
func (s *Schema) Param(name string) string {
	for _, p := range s.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Equal reports whether two schemas are the same in every property, as Kafka Connect's equality does.
func (s *Schema) Equal(t *Schema) bool {
	if s == t {
		return true
	}
	if s == nil || t == nil || s.Type != t.Type || s.Optional != t.Optional || s.Name != t.Name || s.Version != t.Version || s.Doc != t.Doc {
		return false
	}
	if !slices.Equal(s.Params, t.Params) || len(s.Fields) != len(t.Fields) || (s.Default == nil) != (t.Default == nil) {
		return false
	}
	if s.Default != nil && !s.Default.Equal(*t.Default) {
		return false
	}
	for i := range s.Fields {
		if s.Fields[i].Name != t.Fields[i].Name || !s.Fields[i].Schema.Equal(t.Fields[i].Schema) {
			return false
		}
	}
	return s.Key.Equal(t.Key) && s.Elem.Equal(t.Elem)
}

// AsOptional gives the schema with Optional set: itself, or a copy.
func (s *Schema) AsOptional() *Schema {
	if s.Optional {
		return s
	}
	c := *s
	c.Optional = true
	return &c
}
