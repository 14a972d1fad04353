package value

import (
	"fmt"
	"math/bits"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// padded gives a BINARY the zeros at its end that the binlog leaves out.
func (c *Codec) padded(raw []byte, a *debezium.Arena) []byte {
	if len(raw) >= c.pad {
		return raw
	}
	out := append(a.Scratch(c.pad), raw...)
	for len(out) < c.pad {
		out = append(out, 0)
	}
	return a.Keep(out)
}

// enum gives the label of an index; 0 is the empty text of what was not a label.
func (c *Codec) enum(raw []byte) (connect.Value, error) {
	switch n := littleEndian(raw); {
	case n == 0:
		return connect.StringValue(""), nil
	case n <= uint64(len(c.labels)):
		return connect.StringValue(c.labels[n-1]), nil
	default:
		return connect.Value{}, fmt.Errorf("the index %d of an ENUM with %d labels", n, len(c.labels))
	}
}

// set gives the labels of a bit set in their order, with commas between.
func (c *Codec) set(raw []byte, a *debezium.Arena) (connect.Value, error) {
	n := littleEndian(raw)
	if n == 0 {
		return connect.StringValue(""), nil
	}
	if high := 64 - bits.LeadingZeros64(n); high > len(c.labels) {
		return connect.Value{}, fmt.Errorf("the member %d of a SET with %d labels", high, len(c.labels))
	}
	if n&(n-1) == 0 {
		return connect.StringValue(c.labels[bits.TrailingZeros64(n)]), nil
	}
	size := 0
	for _, label := range c.labels {
		size += len(label) + 1
	}
	out := a.Scratch(size)
	for ; n != 0; n &= n - 1 {
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, c.labels[bits.TrailingZeros64(n)]...)
	}
	return connect.StringValue(a.KeepString(out)), nil
}

// littleEndian reads an unsigned number of up to eight bytes.
func littleEndian(b []byte) uint64 {
	n := uint64(0)
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}
