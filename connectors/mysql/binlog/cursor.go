package binlog

import "encoding/binary"

// cursor reads little-endian fields of an event. Reading behind the end gives zeros and sets short: callers read all
// their fields and then look at it once.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() byte {
	b := c.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (c *cursor) u16() uint16 {
	b := c.bytes(2)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint16(b)
}

func (c *cursor) u32() uint32 {
	b := c.bytes(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) u64() uint64 {
	b := c.bytes(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// uint reads a number of n bytes, n up to 8.
func (c *cursor) uint(n int) uint64 {
	var v uint64
	for i, b := range c.bytes(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// packed reads a length-encoded integer.
func (c *cursor) packed() uint64 {
	switch first := c.u8(); first {
	case 0xfc:
		return uint64(c.u16())
	case 0xfd:
		return c.uint(3)
	case 0xfe:
		return c.u64()
	case 0xfb, 0xff:
		c.short = true
		return 0
	default:
		return uint64(first)
	}
}

// count reads a packed integer that says how many things of at least size bytes follow.
func (c *cursor) count(size int) int {
	n := c.packed()
	if n > uint64(len(c.b)/size) {
		c.short, c.b = true, nil
		return 0
	}
	return int(n)
}

// packedBytes reads a length-encoded string.
func (c *cursor) packedBytes() []byte { return c.bytes(c.count(1)) }

// varint reads an unsigned integer of the server's serialization library: as many bytes as the first one has trailing
// one bits, and one more.
func (c *cursor) varint() uint64 {
	if len(c.b) == 0 {
		c.short = true
		return 0
	}
	n := 1
	for first := c.b[0]; first&1 == 1; first >>= 1 {
		n++
	}
	if n == 9 {
		c.u8()
		return c.u64()
	}
	return c.uint(n) >> n
}

// signed reads a signed integer of the same library.
func (c *cursor) signed() int64 {
	v := c.varint()
	if v&1 == 0 {
		return int64(v >> 1)
	}
	return -1 - int64(v>>1)
}
