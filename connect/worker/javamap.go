package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A standalone worker's offsets are a file that holds one java.util.HashMap<byte[], byte[]>, written by Java's
// serialisation (Java Object Serialization Specification, version 2). Big-endian:
//
//	aced 0005                                          stream, version
//	73 72 "java.util.HashMap" 0507dac1c31660d1         object, class, its serialVersionUID
//	   03 0002 'F' "loadFactor" 'I' "threshold" 78 70  flags, fields, no annotation, no superclass
//	3f400000 int32 threshold                           the fields' values
//	77 08 int32 buckets │ int32 entries                block data
//	entries × (key, value)                             each 70 (null), 75 (array) or 71 (as earlier)
//	   75 72 "[B" acf317f8060854e0 02 0000 78 70  int32 length │ bytes      the first array
//	   75 71 007e0002                             int32 length │ bytes      others: the class as earlier
//	78
//
// A string is a uint16 length and bytes. Handles count classes, objects and arrays from 007e0000.

var errJavaMap = errors.New("not a Java-serialised map of byte arrays")

const (
	javaNull, javaReference, javaClass, javaObject, javaArray = 0x70, 0x71, 0x72, 0x73, 0x75
	javaBlock, javaEnd                                        = 0x77, 0x78
	javaHandles                                               = 0x7e0000
)

const (
	javaMapHead  = "\xac\xed\x00\x05\x73\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02F\x00\x0aloadFactorI\x00\x09threshold\x78\x70\x3f\x40\x00\x00"
	javaByteType = "\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
)

// appendJavaMap writes entries, sorted by key.
func appendJavaMap(b []byte, entries map[string][]byte) []byte {
	buckets := 16
	for len(entries)*4 > buckets*3 {
		buckets *= 2
	}
	b = append(b, javaMapHead...)
	b = binary.BigEndian.AppendUint32(b, uint32(buckets*3/4))
	b = append(b, javaBlock, 8)
	b = binary.BigEndian.AppendUint32(b, uint32(buckets))
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	first := true
	array := func(v []byte) {
		b = append(b, javaArray)
		if first {
			b = append(b, javaByteType...)
		} else {
			b = binary.BigEndian.AppendUint32(append(b, javaReference), javaHandles+2)
		}
		first = false
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		array([]byte(k))
		array(entries[k])
	}
	return append(b, javaEnd)
}

// javaReader reads a stream; the first fault stays.
type javaReader struct {
	b       []byte
	at      int
	handles [][]byte // by number; nil for what is no array
	types   []bool   // by number: the class of byte arrays
	err     error
}

// parseJavaMap reads a map; entries without a key or value are left out. The slices are those of b.
func parseJavaMap(b []byte) (map[string][]byte, error) {
	r := &javaReader{b: b}
	r.want("\xac\xed\x00\x05")
	r.want(string([]byte{javaObject, javaClass}))
	if name := r.text(); name != "java.util.HashMap" {
		r.fail("an object of class %q", name)
	}
	r.hold(nil, false) // the class
	r.take(8)
	r.want("\x03")
	values := r.fields()
	r.want(string([]byte{javaEnd, javaNull}))
	r.hold(nil, false) // the object
	r.take(values)
	r.want(string([]byte{javaBlock, 8}))
	r.take(4)
	count := int(int32(r.uint32()))
	out := map[string][]byte{}
	for i := 0; i < count && r.err == nil; i++ {
		key, hasKey := r.array()
		value, hasValue := r.array()
		if hasKey && hasValue && r.err == nil {
			out[string(key)] = value
		}
	}
	r.want(string([]byte{javaEnd}))
	return out, r.err
}

// fields reads a class's fields, all numbers, and gives the size of their values.
func (r *javaReader) fields() (size int) {
	sizes := map[byte]int{'B': 1, 'C': 2, 'D': 8, 'F': 4, 'I': 4, 'J': 8, 'S': 2, 'Z': 1}
	count := int(binary.BigEndian.Uint16(r.take(2)))
	for i := 0; i < count && r.err == nil; i++ {
		kind := r.take(1)[0]
		if sizes[kind] == 0 {
			r.fail("a field of type %q", kind)
		}
		r.text()
		size += sizes[kind]
	}
	return size
}

// array reads one byte array; ok is false for null.
func (r *javaReader) array() (v []byte, ok bool) {
	switch kind := r.take(1)[0]; kind {
	case javaNull:
		return nil, false
	case javaReference:
		n := int(r.uint32()) - javaHandles
		if n < 0 || n >= len(r.handles) || r.handles[n] == nil {
			r.fail("a reference to what is no array")
			return nil, false
		}
		return r.handles[n], true
	case javaArray:
		r.byteType()
		n := len(r.handles)
		r.hold(nil, false)
		v = r.take(int(int32(r.uint32())))
		r.handles[n] = v
		return v, r.err == nil
	default:
		r.fail("an entry of kind %#x", kind)
		return nil, false
	}
}

// byteType reads the class of an array, which must be that of bytes.
func (r *javaReader) byteType() {
	switch kind := r.take(1)[0]; kind {
	case javaReference:
		if n := int(r.uint32()) - javaHandles; n < 0 || n >= len(r.types) || !r.types[n] {
			r.fail("an array that is not of bytes")
		}
	case javaClass:
		r.at--
		r.want(javaByteType)
		r.hold(nil, true)
	default:
		r.fail("an array of kind %#x", kind)
	}
}

func (r *javaReader) hold(array []byte, byteType bool) {
	r.handles, r.types = append(r.handles, array), append(r.types, byteType)
}

func (r *javaReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: at byte %d: %s", errJavaMap, r.at, fmt.Sprintf(format, args...))
	}
}

// take gives the next n bytes; zeros after a fault.
func (r *javaReader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)-r.at) {
		r.fail("it ends too early")
	}
	if r.err != nil {
		return make([]byte, min(max(n, 0), 16))
	}
	v := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return v
}

func (r *javaReader) want(text string) {
	if v := r.take(len(text)); r.err == nil && !bytes.Equal(v, []byte(text)) {
		r.at -= len(text)
		r.fail("%x where %x should be", v, text)
	}
}

func (r *javaReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *javaReader) text() string { return string(r.take(int(binary.BigEndian.Uint16(r.take(2))))) }
