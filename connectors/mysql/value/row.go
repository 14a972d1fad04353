package value

import (
	"fmt"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// Plan decodes the row images of one table map: its codecs in the order of the columns. It remembers the JSON documents
// of the image it decoded last, so it is one goroutine's.
type Plan struct {
	codecs []*Codec
	json   []int    // columns that PARTIAL_JSON counts: those with binary JSON
	docs   [][]byte // of json, as the last image had them; nil for none
}

// NewPlan makes a plan of one codec per column of the table map; those of [NewSkip] for columns that are not wanted.
func NewPlan(codecs []*Codec, wires []Wire) *Plan {
	p := &Plan{codecs: codecs}
	for i := range wires {
		if wires[i].Type == typeJSON {
			p.json = append(p.json, i)
		}
	}
	p.docs = make([][]byte, len(p.json))
	return p
}

// Present reports whether an image has column i.
func Present(bitmap []byte, i int) bool { return i>>3 < len(bitmap) && bitmap[i>>3]&(1<<(i&7)) != 0 }

// Row decodes the row image at the beginning of data, of the columns whose bits are set in present, into out; rest is
// what follows it. The place of an absent column is left as it was. Values share data and a. The image is
//
//	bitmap of nulls, a bit for each present column | the values of those that are not null
func (p *Plan) Row(data, present []byte, a *debezium.Arena, out []connect.Value) (rest []byte, err error) {
	nulls, data, err := p.nulls(data, present)
	if err != nil {
		return nil, err
	}
	clear(p.docs)
	bit, doc := 0, 0
	for i, c := range p.codecs {
		isDoc := doc < len(p.json) && p.json[doc] == i
		if isDoc {
			doc++
		}
		if present[i>>3]&(1<<(i&7)) == 0 {
			continue
		}
		null := nulls[bit>>3]&(1<<(bit&7)) != 0
		bit++
		if null {
			out[i] = connect.Value{}
			continue
		}
		raw, rest, err := c.frame.cut(data)
		if err == nil {
			out[i], err = c.decode(raw, a)
		}
		if err != nil {
			return nil, c.fault(err)
		}
		if data = rest; isDoc {
			p.docs[doc-1] = raw
		}
	}
	return data, nil
}

// nulls cuts off the bitmap of nulls.
func (p *Plan) nulls(data, present []byte) (nulls, rest []byte, err error) {
	if len(present) < (len(p.codecs)+7)/8 {
		return nil, nil, fmt.Errorf("the bitmap of columns is too short for %d columns", len(p.codecs))
	}
	n := 0
	for i := range p.codecs {
		n += int(present[i>>3] >> (i & 7) & 1)
	}
	if size := (n + 7) / 8; len(data) >= size {
		return data[:size], data[size:], nil
	}
	return nil, nil, errShort
}

// PartialRow decodes the after image of an update whose JSON columns may be told as what changed (PARTIAL_JSON), after
// [Plan.Row] has decoded the before image. The image has before it
//
//	options, a packed number whose lowest bit says that the next is there | bitmap, a bit for each JSON column of the table
func (p *Plan) PartialRow(data, present []byte, a *debezium.Arena, out []connect.Value) (rest []byte, err error) {
	if len(data) == 0 {
		return nil, errShort
	}
	options, data := data[0], data[1:]
	if options > 1 {
		return nil, fmt.Errorf("a row image with the unknown options %d", options)
	}
	var partial []byte
	if options == 1 {
		size := (len(p.json) + 7) / 8
		if len(data) < size {
			return nil, errShort
		}
		partial, data = data[:size], data[size:]
	}
	nulls, data, err := p.nulls(data, present)
	if err != nil {
		return nil, err
	}
	bit, doc := 0, -1
	for i, c := range p.codecs {
		isDoc := doc+1 < len(p.json) && p.json[doc+1] == i
		if isDoc {
			doc++
		}
		if !Present(present, i) {
			continue
		}
		null := Present(nulls, bit)
		bit++
		if null {
			out[i] = connect.Value{}
			continue
		}
		raw, rest, err := c.frame.cut(data)
		switch {
		case err != nil:
		case isDoc && Present(partial, doc) && c.op == opSkip:
		case isDoc && Present(partial, doc):
			out[i], err = patched(p.docs[doc], raw, a)
		default:
			out[i], err = c.decode(raw, a)
		}
		if err != nil {
			return nil, c.fault(err)
		}
		data = rest
	}
	return data, nil
}
