package convert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlog/weir/connect"
)

// Converter turns keys or values into bytes and back. There is one per task and role; it is not for concurrent use, but
// its [connect.Codec] may be used beside Encode.
type Converter interface {
	// Encode appends d's bytes to dst and returns the longer slice. null says to write null bytes (a tombstone); nothing
	// was appended then. Data that is still encoded in the converter's own format is copied without being decoded. On an
	// error dst is returned as it was. d may get decoded, its meaning stays.
	Encode(dst []byte, topic string, d *connect.Data) (out []byte, null bool, err error)
	// Codec is the decoding side, to be given to [connect.EncodedData]; always the same pointer. Its Decode is for one
	// goroutine at a time.
	Codec() *connect.Codec
}

// HeaderConverter is a Converter for header values.
type HeaderConverter interface {
	// Encode is [Converter.Encode] for the value of the header key.
	Encode(dst []byte, topic, key string, d *connect.Data) (out []byte, null bool, err error)
	// Codec is [Converter.Codec].
	Codec() *connect.Codec
}

// Kind says what a class may be used for.
type Kind string

// The kinds, in the words of Kafka Connect's list of plugins.
const (
	KindConverter       Kind = "converter"
	KindHeaderConverter Kind = "header_converter"
)

// ClassInfo describes one class for the list of plugins and for validation.
type ClassInfo struct {
	Class   string   // the Java class
	Aliases []string // its simple name and our short names
	Kind    Kind     // a class that is both is listed twice
	Fields  []connect.Field
}

// Errors of this package, wrapped by what its functions return.
var (
	// ErrUnknownClass: no converter has this class.
	ErrUnknownClass = errors.New("convert: unknown converter class")
	// ErrData: the data can't be written by this converter, or the bytes can't be read by it.
	ErrData = errors.New("convert: bad data")
)

// New makes the converter of a class: its Java class, simple class or short name. props are its properties without their
// prefix ("key.converter." or "value.converter."); isKey tells its role. Bad properties give a [connect.BadConfig] that
// names the property without its prefix.
func New(class string, props map[string]string, isKey bool) (Converter, error) {
	for _, c := range classes() {
		if c.info.Kind == KindConverter && c.answersTo(class) {
			s, err := c.settings(props)
			if err != nil {
				return nil, err
			}
			return c.open(s, isKey)
		}
	}
	return nil, fmt.Errorf("%w %q; known are %s", ErrUnknownClass, class, known(KindConverter))
}

// NewHeader makes the header converter of a class; props are without the prefix "header.converter.".
func NewHeader(class string, props map[string]string) (HeaderConverter, error) {
	for _, c := range classes() {
		if c.info.Kind == KindHeaderConverter && c.answersTo(class) {
			s, err := c.settings(props)
			if err != nil {
				return nil, err
			}
			return c.openHeader(s)
		}
	}
	return nil, fmt.Errorf("%w %q; known are %s", ErrUnknownClass, class, known(KindHeaderConverter))
}

// Classes lists every class with its configuration keys.
func Classes() []ClassInfo {
	var out []ClassInfo
	for _, c := range classes() {
		out = append(out, c.info)
	}
	return out
}

// class is one entry of the table of converters.
type class struct {
	info       ClassInfo
	open       func(s *connect.Settings, isKey bool) (Converter, error)
	openHeader func(s *connect.Settings) (HeaderConverter, error)
}

func (c *class) answersTo(name string) bool {
	if name == c.info.Class {
		return true
	}
	for _, a := range c.info.Aliases {
		if name == a {
			return true
		}
	}
	return false
}

func (c *class) settings(props map[string]string) (*connect.Settings, error) {
	s, results := connect.ParseConfig(c.info.Fields, props)
	return s, connect.FirstError(results)
}

func known(k Kind) string {
	var names []string
	for _, c := range classes() {
		if c.info.Kind == k {
			names = append(names, c.info.Aliases[len(c.info.Aliases)-1])
		}
	}
	return strings.Join(names, ", ")
}
