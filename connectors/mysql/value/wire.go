package value

import "fmt"

// Column types as TABLE_MAP events have them.
const (
	typeTiny, typeShort, typeLong, typeFloat, typeDouble            = 1, 2, 3, 4, 5
	typeTimestamp, typeLongLong, typeInt24, typeDate, typeTime      = 7, 8, 9, 10, 11
	typeDateTime, typeYear, typeNewDate, typeVarchar, typeBit       = 12, 13, 14, 15, 16
	typeTimestamp2, typeDateTime2, typeTime2                        = 17, 18, 19
	typeBlobCompressed, typeVarcharCompressed                       = 140, 141 // MariaDB
	typeVector, typeJSON, typeNewDecimal, typeEnum, typeSet         = 242, 245, 246, 247, 248
	typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlob            = 249, 250, 251, 252
	typeVarString, typeString, typeGeometry                    byte = 253, 254, 255
)

// Wire is how a table map says that a column's values stand in row images. The zero Wire is for columns that are only
// read as text.
type Wire struct {
	Type byte   // the type
	Meta uint16 // its metadata; of two bytes (STRING, NEWDECIMAL) the first is the high one
}

// frame says where a value ends: it has prefix bytes of length before it, or else a fixed number of bytes.
type frame struct {
	prefix int
	fixed  int
}

// realType gives the type behind STRING: ENUM and SET hide there.
func (w Wire) realType() byte {
	if w.Type == typeString && w.Meta >= 256 {
		if t := byte(w.Meta>>8) | 0x30; t == typeEnum || t == typeSet {
			return byte(w.Meta >> 8)
		}
	}
	return w.Type
}

// stringLength gives the bytes that a CHAR or BINARY may have.
func (w Wire) stringLength() int {
	if w.Meta < 256 {
		return int(w.Meta)
	}
	return int(w.Meta>>4&0x300^0x300) + int(w.Meta&0xFF)
}

func (w Wire) frame() (frame, error) {
	meta := int(w.Meta)
	switch w.realType() {
	case typeTiny, typeYear:
		return frame{fixed: 1}, nil
	case typeShort:
		return frame{fixed: 2}, nil
	case typeInt24, typeDate, typeNewDate, typeTime:
		return frame{fixed: 3}, nil
	case typeLong, typeFloat, typeTimestamp:
		return frame{fixed: 4}, nil
	case typeLongLong, typeDouble, typeDateTime:
		return frame{fixed: 8}, nil
	case typeTimestamp2:
		return frame{fixed: 4 + (meta+1)/2}, fractions(meta)
	case typeDateTime2:
		return frame{fixed: 5 + (meta+1)/2}, fractions(meta)
	case typeTime2:
		return frame{fixed: 3 + (meta+1)/2}, fractions(meta)
	case typeNewDecimal:
		return decimalFrame(meta>>8, meta&0xFF)
	case typeBit:
		bits := meta>>8*8 + meta&0xFF
		if bits < 1 || bits > 64 {
			return frame{}, fmt.Errorf("BIT of %d bits", bits)
		}
		return frame{fixed: (bits + 7) / 8}, nil
	case typeEnum, typeSet:
		if size := meta & 0xFF; size >= 1 && size <= 8 {
			return frame{fixed: size}, nil
		}
		return frame{}, fmt.Errorf("ENUM or SET of %d bytes", meta&0xFF)
	case typeVarchar, typeVarString, typeVarcharCompressed:
		return lengthPrefix(meta), nil
	case typeString:
		return lengthPrefix(w.stringLength()), nil
	case typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlobCompressed, typeJSON, typeGeometry, typeVector:
		if meta >= 1 && meta <= 4 {
			return frame{prefix: meta}, nil
		}
		return frame{}, fmt.Errorf("a BLOB with a length of %d bytes", meta)
	}
	return frame{}, fmt.Errorf("a column of the unknown type %d", w.Type)
}

func lengthPrefix(maxLength int) frame {
	if maxLength < 256 {
		return frame{prefix: 1}
	}
	return frame{prefix: 2}
}

func fractions(digits int) error {
	if digits > 6 {
		return fmt.Errorf("%d fraction digits of a second", digits)
	}
	return nil
}

// cut splits a value's bytes from what follows.
func (f frame) cut(data []byte) (raw, rest []byte, err error) {
	n := f.fixed
	if f.prefix > 0 {
		if len(data) < f.prefix {
			return nil, nil, errShort
		}
		n = 0
		for i := f.prefix - 1; i >= 0; i-- {
			n = n<<8 | int(data[i])
		}
		data = data[f.prefix:]
	}
	if len(data) < n {
		return nil, nil, errShort
	}
	return data[:n:n], data[n:], nil
}
