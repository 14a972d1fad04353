package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request on the wire:
//
//	size int32 | key int16 | version int16 | correlation id int32 | client id nullable string | [tags] | body
//
// tags only in flexible versions (request header v2). size counts what follows it.
const (
	sizeBytes      = 4
	keyBytes       = 2
	minHeaderBytes = keyBytes + 2 + 4 + 2

	// maxControlBytes and leastControlBytes bound requests other than Produce, whose bytes are not mostly records: what
	// one is charged should be no more than all memory for requests.
	maxControlBytes   = 32 << 20
	leastControlBytes = 4 << 20
	// decodedFactor is what a request other than Produce is charged per byte: its arrays of small elements grow when
	// they are decoded.
	decodedFactor = 8
	// maxProducePartitions bounds the partitions of one Produce, whose slots are larger than their bytes on the wire.
	maxProducePartitions = 200_000
	// maxFetchPartitions bounds the partitions of one Fetch, likewise.
	maxFetchPartitions = 200_000
)

// Errors of frames; each ends the connection that sent it.
var (
	errFrameSize      = errors.New("frame size out of bounds")
	errShortHeader    = errors.New("request header is cut short")
	errUnsupportedKey = errors.New("API key is not supported")
	errVersion        = errors.New("API version is not supported")
	errBody           = errors.New("request body can't be decoded")
)

// header is a request header; body is the rest of the frame.
type header struct {
	key, version  int16
	correlationID int32
	clientID      string
	body          []byte
}

// frameSize checks the four bytes before a frame.
func frameSize(b [sizeBytes]byte, maxBytes int32) (int, error) {
	n := int32(binary.BigEndian.Uint32(b[:]))
	if n < minHeaderBytes || n > maxBytes {
		return 0, fmt.Errorf("%w: %d bytes, allowed are %d to %d", errFrameSize, n, minHeaderBytes, maxBytes)
	}
	return int(n), nil
}

// admission says, from a frame's size and key, what it is charged to a budget of limitBytes.
func admission(sizeOfRest int, key [keyBytes]byte, limitBytes int64) (charge int64, err error) {
	if int16(binary.BigEndian.Uint16(key[:])) == keyProduce {
		return int64(sizeOfRest), nil
	}
	if most := max(leastControlBytes, min(limitBytes/decodedFactor, maxControlBytes)); int64(sizeOfRest) > most {
		return 0, fmt.Errorf("%w: %d bytes, allowed are %d but for Produce", errFrameSize, sizeOfRest, most)
	}
	return int64(sizeOfRest) * decodedFactor, nil
}

// parseHeader reads a frame's header. The body aliases the frame.
func parseHeader(frame []byte) (header, error) {
	var h header
	if len(frame) < minHeaderBytes {
		return h, errShortHeader
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(frame[4:]))
	n := int16(binary.BigEndian.Uint16(frame[8:]))
	rest := frame[minHeaderBytes:]
	if n > 0 {
		if int(n) > len(rest) {
			return h, errShortHeader
		}
		h.clientID = string(rest[:n])
		rest = rest[n:]
	}
	h.body = rest
	return h, nil
}

// skipTags drops the tagged fields at the start of b.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, errShortHeader
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errShortHeader
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errShortHeader
		}
		b = b[n+int(size):]
	}
	return b, nil
}

// decode turns a header into a request by the dispatch table. The request's byte fields alias the frame.
// An ApiVersions request of an unknown version is decoded as far as its header, with a nil Body.
func (t *table) decode(h header) (*Request, *api, error) {
	row := t.find(h.key)
	if row == nil {
		return nil, nil, fmt.Errorf("%w: key %d", errUnsupportedKey, h.key)
	}
	req := &Request{Key: h.key, Version: h.version, CorrelationID: h.correlationID, ClientID: h.clientID}
	if h.version < row.oldest || h.version > row.max {
		if h.key == keyAPIVersions {
			return req, row, nil
		}
		return nil, nil, fmt.Errorf("%w: key %d version %d, served are %d to %d", errVersion, h.key, h.version, row.oldest, row.max)
	}
	body := requestForKey(h.key)
	body.SetVersion(h.version)
	rest := h.body
	if body.IsFlexible() {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return nil, nil, err
		}
	}
	if h.key == keyProduce {
		if err := checkProduceShape(h.version, rest); err != nil {
			return nil, nil, err
		}
	}
	if err := body.ReadFrom(rest); err != nil {
		return nil, nil, fmt.Errorf("%w: key %d version %d: %w", errBody, h.key, h.version, err)
	}
	if f, ok := body.(*kmsg.FetchRequest); ok {
		if parts := fetchPartitions(f); parts > maxFetchPartitions {
			return nil, nil, fmt.Errorf("%w: %d partitions in a fetch, allowed are %d", errBody, parts, maxFetchPartitions)
		}
	}
	req.Body = body
	return req, row, nil
}

// requestForKey is an empty request of a key that is in the dispatch table.
func requestForKey(key int16) kmsg.Request {
	if key >= firstPrivateKey {
		return &privateRequest{key: key}
	}
	return kmsg.RequestForKey(key)
}

// fetchPartitions counts the partitions that a fetch names.
func fetchPartitions(r *kmsg.FetchRequest) int {
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	return n
}

// table is the dispatch table, indexed by API key.
type table struct {
	rows  []api // what is advertised
	byKey map[int16]*api
}

// newTable is a table of rows, and of those that only peers may ask for.
func newTable(rows []api, private ...api) *table {
	t := &table{rows: rows, byKey: make(map[int16]*api, len(rows)+len(private))}
	for _, list := range [][]api{rows, private} {
		for i := range list {
			t.byKey[list[i].key] = &list[i]
		}
	}
	return t
}

func (t *table) find(key int16) *api { return t.byKey[key] }

// appendResponse adds one whole response frame to dst. ApiVersions answers always have header v0.
func appendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != keyAPIVersions {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-sizeBytes))
	return dst
}
