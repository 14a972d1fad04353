package core

import (
	"encoding/binary"
	"fmt"
)

// checkProduceShape walks a Produce body without decoding it and refuses one whose lengths lie or that names too many
// partitions, so that decoding it takes no more memory than the frame was charged by a small factor.
//
//	[transactional id] | acks i16 | timeout i32 | topics: (name | id) , partitions: index i32, records bytes
func checkProduceShape(version int16, body []byte) error {
	w := walker{b: body, flexible: version >= 9}
	w.skipString() // transactional id; versions 0-2 don't get here
	w.skip(2 + 4)
	partitions := int64(0)
	for range w.length(4) {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skipString()
		}
		n := w.length(4)
		if partitions += n + 1; partitions > maxProducePartitions {
			return fmt.Errorf("%w: more than %d partitions in one produce", errBody, maxProducePartitions)
		}
		for range n {
			w.skip(4)
			w.skip(int(w.length(4)))
			w.skipTags()
			if w.short {
				break
			}
		}
		w.skipTags()
		if w.short {
			break
		}
	}
	w.skipTags()
	if w.short {
		return fmt.Errorf("%w: cut short", errBody)
	}
	return nil
}

// walker skips over an encoded body. After short is set it stays where it is and every length is 0.
type walker struct {
	b        []byte
	flexible bool
	short    bool
}

func (w *walker) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.short, w.b = true, nil
		return
	}
	w.b = w.b[n:]
}

// length reads a length: an unsigned varint of n+1 when flexible, else an integer of so many bytes; null is 0.
func (w *walker) length(plainBytes int) int64 {
	if w.flexible {
		n, size := binary.Uvarint(w.b)
		if size <= 0 || n > 1<<31 {
			w.short, w.b = true, nil
			return 0
		}
		w.b = w.b[size:]
		return max(0, int64(n)-1)
	}
	if len(w.b) < plainBytes {
		w.short, w.b = true, nil
		return 0
	}
	var n int64
	if plainBytes == 2 {
		n = int64(int16(binary.BigEndian.Uint16(w.b)))
	} else {
		n = int64(int32(binary.BigEndian.Uint32(w.b)))
	}
	w.b = w.b[plainBytes:]
	return max(0, n)
}

func (w *walker) skipString() { w.skip(int(w.length(2))) }

func (w *walker) skipTags() {
	if !w.flexible || w.short {
		return
	}
	rest, err := skipTags(w.b)
	if err != nil {
		w.short = true
	}
	w.b = rest
}
