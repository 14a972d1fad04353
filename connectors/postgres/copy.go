package postgres

import (
	"bytes"
	"fmt"
)

// copyRow splits a line of COPY's text form into a tuple, in place: columns are separated by tabs, \N is null, and a
// backslash escapes. The tuple shares the line's memory.
func copyRow(line []byte, into tuple) (tuple, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	into = into[:0]
	for {
		end := bytes.IndexByte(line, '\t')
		field := line
		if end >= 0 {
			field = line[:end:end]
		}
		switch {
		case len(field) == 2 && field[0] == '\\' && field[1] == 'N':
			into = append(into, cell{kind: cellNull})
		default:
			text, err := unescapeCopy(field)
			if err != nil {
				return into, err
			}
			into = append(into, cell{kind: cellText, text: text})
		}
		if end < 0 {
			return into, nil
		}
		line = line[end+1:]
	}
}

func unescapeCopy(field []byte) ([]byte, error) {
	i := bytes.IndexByte(field, '\\')
	if i < 0 {
		return field, nil
	}
	out := field[:i]
	for ; i < len(field); i++ {
		b := field[i]
		if b != '\\' {
			out = append(out, b)
			continue
		}
		if i++; i == len(field) {
			return nil, fmt.Errorf("COPY row ends within an escape")
		}
		switch field[i] {
		case 'b':
			b = '\b'
		case 'f':
			b = '\f'
		case 'n':
			b = '\n'
		case 'r':
			b = '\r'
		case 't':
			b = '\t'
		case 'v':
			b = '\v'
		default:
			b = field[i]
		}
		out = append(out, b)
	}
	return out[:len(out):len(out)], nil
}
