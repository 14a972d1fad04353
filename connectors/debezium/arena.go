package debezium

import (
	"unsafe"

	"github.com/weirlog/weir/connect"
)

const (
	textChunkBytes  = 64 << 10
	valueChunk      = 8 << 10 // values
	keptArenaChunks = 64
)

// Arena holds what a batch's records point to besides the messages themselves: values and text that was made. It is
// emptied, and its memory used again, by the next Poll.
type Arena struct {
	texts     [][]byte
	text      []byte
	freeTexts [][]byte

	values     [][]connect.Value
	slab       []connect.Value
	freeValues [][]connect.Value

	heldBytes int // in all chunks of this batch
}

// Release ends the life of everything that was handed out.
func (a *Arena) Release() {
	for _, b := range a.texts {
		if cap(b) == textChunkBytes && len(a.freeTexts) < keptArenaChunks {
			a.freeTexts = append(a.freeTexts, b[:0])
		}
	}
	for _, v := range a.values {
		if cap(v) == valueChunk && len(a.freeValues) < keptArenaChunks {
			a.freeValues = append(a.freeValues, v[:0])
		}
	}
	clear(a.texts)
	clear(a.values)
	a.texts, a.values = a.texts[:0], a.values[:0]
	a.text, a.slab = a.text[:0], a.slab[:0]
	a.heldBytes = 0
}

// Take gives n null values.
func (a *Arena) Take(n int) []connect.Value {
	if cap(a.slab)-len(a.slab) < n {
		a.grow(n)
	}
	start := len(a.slab)
	a.slab = a.slab[:start+n]
	out := a.slab[start : start+n : start+n]
	clear(out)
	return out
}

func (a *Arena) grow(n int) {
	if cap(a.slab) > 0 {
		a.values = append(a.values, a.slab)
	}
	switch {
	case n > valueChunk:
		a.slab = make([]connect.Value, 0, n)
	case len(a.freeValues) > 0:
		last := len(a.freeValues) - 1
		a.slab = a.freeValues[last]
		a.freeValues = a.freeValues[:last]
	default:
		a.slab = make([]connect.Value, 0, valueChunk)
	}
	a.heldBytes += cap(a.slab) * int(unsafe.Sizeof(connect.Value{}))
}

// Scratch gives an empty slice with room for at least n bytes; keep what was appended with [Arena.Keep].
func (a *Arena) Scratch(n int) []byte {
	if cap(a.text)-len(a.text) < n {
		if cap(a.text) > 0 {
			a.texts = append(a.texts, a.text)
		}
		switch last := len(a.freeTexts) - 1; {
		case n > textChunkBytes:
			a.text = make([]byte, 0, n)
		case last >= 0:
			a.text = a.freeTexts[last]
			a.freeTexts = a.freeTexts[:last]
		default:
			a.text = make([]byte, 0, textChunkBytes)
		}
		a.heldBytes += cap(a.text)
	}
	return a.text[len(a.text):]
}

// Keep makes the bytes that were appended to Scratch's slice last until Release.
func (a *Arena) Keep(b []byte) []byte {
	if len(b) <= cap(a.text)-len(a.text) {
		a.text = a.text[:len(a.text)+len(b)]
	}
	return b[:len(b):len(b)]
}

// KeepString is Keep as a string.
func (a *Arena) KeepString(b []byte) string { return AsString(a.Keep(b)) }

// AsString gives a string that shares b.
func AsString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// HeldBytes tells how much memory the batch's chunks hold.
func (a *Arena) HeldBytes() int { return a.heldBytes }
