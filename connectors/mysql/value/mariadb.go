package value

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
)

// uuidText gives a UUID as text. MariaDB stores the parts of one of the versions 1 to 5 from the last to the first, so that
// indices are in the order of time, and others as they are:
//
//	as it is  time (4) time (2) version (2) variant (2) node (6)
//	turned    node (6) variant (2) version (2) time (2) time (4)
//
// A variant's highest bit is set, that of a version which is turned is not.
func uuidText(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if len(raw) > 16 {
		return connect.Value{}, fmt.Errorf("a UUID of %d bytes", len(raw))
	}
	var u, id [16]byte
	copy(u[:], raw) // the binlog leaves out zeros at the end
	if u[6]&0x80 != 0 && u[8]&0x80 == 0 {
		copy(id[0:4], u[12:16])
		copy(id[4:6], u[10:12])
		copy(id[6:8], u[8:10])
		copy(id[8:10], u[6:8])
		copy(id[10:16], u[0:6])
	} else {
		id = u
	}
	out := a.Scratch(36)
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = append(out, lowerHex[b>>4], lowerHex[b&15])
	}
	return connect.StringValue(a.KeepString(out)), nil
}

func inet4Text(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if len(raw) > 4 {
		return connect.Value{}, fmt.Errorf("an INET4 of %d bytes", len(raw))
	}
	var ip [4]byte
	copy(ip[:], raw)
	return connect.StringValue(a.KeepString(appendInet4(a.Scratch(15), ip[:]))), nil
}

func appendInet4(out, ip []byte) []byte {
	for i, b := range ip {
		if i > 0 {
			out = append(out, '.')
		}
		out = strconv.AppendUint(out, uint64(b), 10)
	}
	return out
}

// inet6Text gives an address as MariaDB prints it: the first of the longest runs of zeros is left out, be it only one,
// and the last two words are an IPv4 address behind ::, and behind ::ffff.
func inet6Text(raw []byte, a *debezium.Arena) (connect.Value, error) {
	if len(raw) > 16 {
		return connect.Value{}, fmt.Errorf("an INET6 of %d bytes", len(raw))
	}
	var ip [16]byte
	copy(ip[:], raw)
	var words [8]uint16
	for i := range words {
		words[i] = uint16(ip[2*i])<<8 | uint16(ip[2*i+1])
	}
	gap, length := -1, 0
	for i := 0; i < 8; i++ {
		n := 0
		for i+n < 8 && words[i+n] == 0 {
			n++
		}
		if n > length {
			gap, length = i, n
		}
		i += n
	}
	out := a.Scratch(46)
	for i := 0; i < 8; i++ {
		if i == gap {
			out = append(out, ':')
			if i == 0 {
				out = append(out, ':')
			}
			i += length - 1
			continue
		}
		if gap == 0 && i == 6 && (length == 6 || length == 5 && words[5] == 0xFFFF) {
			return connect.StringValue(a.KeepString(appendInet4(out, ip[12:]))), nil
		}
		out = strconv.AppendUint(out, uint64(words[i]), 16)
		if i < 7 {
			out = append(out, ':')
		}
	}
	return connect.StringValue(a.KeepString(out)), nil
}

// maxInflated bounds a COMPRESSED value as the server's own types do.
const maxInflated = 1 << 32

// inflate reads a value of a COMPRESSED column: a header byte, then plainly the value if it is 0, else
//
//	method (4 bits: 8 zlib), no zlib header (1), bytes of length (3) | length, big-endian | deflated
func inflate(raw []byte, a *debezium.Arena) ([]byte, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	header := raw[0]
	if header == 0 {
		return raw[1:], nil
	}
	size := int(header & 7)
	if header>>4 != 8 || len(raw) < 1+size {
		return nil, fmt.Errorf("a COMPRESSED value with the header %#x", header)
	}
	length := bigEndian(raw[1 : 1+size])
	var from io.Reader = bytes.NewReader(raw[1+size:])
	if header&8 == 0 {
		var err error
		if from, err = zlib.NewReader(from); err != nil {
			return nil, err
		}
	} else {
		from = flate.NewReader(from)
	}
	if length >= maxInflated || length > 1100*uint64(len(raw)) { // deflate makes at most 1032 of 1
		return nil, errors.New("a COMPRESSED value says that it is longer than it can be")
	}
	out := a.Scratch(int(length))[:length]
	if _, err := io.ReadFull(from, out); err != nil {
		return nil, fmt.Errorf("inflate a COMPRESSED value: %w", err)
	}
	return a.Keep(out), nil
}
