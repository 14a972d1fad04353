package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestFrame is a frame without its size, as a client of that version writes it.
func requestFrame(t testing.TB, req kmsg.Request, version int16) []byte {
	t.Helper()
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, req, 7)[sizeBytes:]
}

func TestEveryAdvertisedVersionIsDecoded(t *testing.T) {
	table := newTable(apis())
	for _, row := range table.rows {
		for v := row.oldest; v <= row.max; v++ {
			req := kmsg.RequestForKey(row.key)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			if v > req.MaxVersion() {
				t.Fatalf("key %d: version %d is advertised, kmsg knows %d", row.key, v, req.MaxVersion())
			}
			h, err := parseHeader(requestFrame(t, req, v))
			if err != nil {
				t.Fatalf("key %d version %d: %v", row.key, v, err)
			}
			if h.clientID != "tester" || h.correlationID != 7 {
				t.Fatalf("key %d version %d: header %+v", row.key, v, h)
			}
			got, _, err := table.decode(h)
			if err != nil {
				t.Fatalf("key %d version %d: %v", row.key, v, err)
			}
			if got.Body.GetVersion() != v || got.Body.Key() != row.key {
				t.Fatalf("key %d version %d: decoded as %d %d", row.key, v, got.Body.Key(), got.Body.GetVersion())
			}
		}
	}
}

func TestRefusedFrames(t *testing.T) {
	table := newTable(apis())
	produce := kmsg.NewPtrProduceRequest()
	for name, tc := range map[string]struct {
		frame []byte
		want  error
	}{
		"empty":               {nil, errShortHeader},
		"client id too long":  {[]byte{0, 18, 0, 0, 0, 0, 0, 1, 0, 9, 'x'}, errShortHeader},
		"unknown key":         {[]byte{3, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, errUnsupportedKey},
		"negative key":        {[]byte{0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, errUnsupportedKey},
		"unknown version":     {[]byte{0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff}, errVersion},
		"produce 2":           {requestFrame(t, produce, 2), errVersion},
		"body cut short":      {requestFrame(t, kmsg.NewPtrListOffsetsRequest(), 1)[:18], errBody},
		"tags beyond the end": {append([]byte{0, 60, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, 1, 0, 200), errShortHeader},
	} {
		h, err := parseHeader(tc.frame)
		if err == nil {
			_, _, err = table.decode(h)
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

func TestFrameSizes(t *testing.T) {
	for _, tc := range []struct {
		size int32
		ok   bool
	}{{-1, false}, {0, false}, {minHeaderBytes - 1, false}, {minHeaderBytes, true}, {1000, true}, {1001, false}, {-1 << 31, false}} {
		var b [sizeBytes]byte
		binary.BigEndian.PutUint32(b[:], uint32(tc.size))
		if _, err := frameSize(b, 1000); (err == nil) != tc.ok {
			t.Errorf("size %d: %v", tc.size, err)
		}
	}
	if charge, err := admission(100, [keyBytes]byte{0, 0}, 1<<30); err != nil || charge != 100 {
		t.Errorf("produce: charge %d, %v", charge, err)
	}
	if charge, err := admission(100, [keyBytes]byte{0, 3}, 1<<30); err != nil || charge != 100*decodedFactor {
		t.Errorf("metadata: charge %d, %v", charge, err)
	}
	if _, err := admission(maxControlBytes+1, [keyBytes]byte{0, 3}, 1<<30); !errors.Is(err, errFrameSize) {
		t.Errorf("a huge metadata request: %v", err)
	}
}

func TestProduceShape(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID = kmsg.StringPtr("x")
	for i := range 3 {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = "topic", [16]byte{byte(i)}
		for j := range 5 {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = int32(j), bytes.Repeat([]byte{1}, 100*j)
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	for v := int16(3); v <= 13; v++ {
		req.SetVersion(v)
		body := req.AppendTo(nil)
		if err := checkProduceShape(v, body); err != nil {
			t.Errorf("version %d: %v", v, err)
		}
		for cut := range len(body) - 1 {
			if checkProduceShape(v, body[:cut]) == nil && req.IsFlexible() {
				t.Errorf("version %d: cut at %d of %d is accepted", v, cut, len(body))
				break
			}
		}
	}
	// A frame full of empty topics must not be decoded into a hundred times its size.
	many := []byte{0xff, 0xff, 0, 1, 0, 0, 0, 1}
	many = binary.BigEndian.AppendUint32(many, maxProducePartitions+1)
	for range maxProducePartitions + 1 {
		many = append(many, 0, 0, 0, 0, 0, 0)
	}
	if err := checkProduceShape(3, many); !errors.Is(err, errBody) {
		t.Errorf("too many topics: %v", err)
	}
}

func TestApiVersionsOfAnUnknownVersion(t *testing.T) {
	table := newTable(apis())
	h, err := parseHeader([]byte{0, 18, 0, 77, 0, 0, 0, 1, 0xff, 0xff, 0, 9, 9, 9})
	if err != nil {
		t.Fatal(err)
	}
	req, _, err := table.decode(h)
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{table: table}
	handleAPIVersions(b, req, func(resp kmsg.Response) {
		frame := appendResponse(nil, 1, resp)
		got := kmsg.NewPtrApiVersionsResponse()
		if err := got.ReadFrom(frame[8:]); err != nil { // header v0: size and correlation id only
			t.Fatal(err)
		}
		if got.ErrorCode != 35 || len(got.ApiKeys) != len(table.rows) {
			t.Errorf("error %d, %d keys", got.ErrorCode, len(got.ApiKeys))
		}
	})
}

// TestFetchEncoding compares our encoder of fetch answers with kmsg's.
func TestFetchEncoding(t *testing.T) {
	big := bytes.Repeat([]byte("r"), 3*smallPieceBytes)
	for v := int16(4); v <= 18; v++ {
		f := &fetch{FetchResponse: kmsg.NewPtrFetchResponse()}
		f.SetVersion(v)
		f.ErrorCode = 3
		f.SessionID = 77
		a := func(index int32) fetchAsk { return fetchAsk{fetchKey: fetchKey{"a", [16]byte{1}, index}} }
		f.all = []fetchPart{
			{fetchAsk: a(0), hw: 10, start: 2, pieces: [][]byte{[]byte("small"), big, big}, size: 5 + 2*len(big)},
			{fetchAsk: a(3), hw: 10, start: 2, isKnown: true},
			{fetchAsk: a(7), errorCode: 1, hw: -1, start: -1},
			{fetchAsk: fetchAsk{fetchKey: fetchKey{"b", [16]byte{2}, 1}}, hw: 3},
		}
		want := kmsg.NewPtrFetchResponse()
		want.SetVersion(v)
		want.ErrorCode = 3
		want.SessionID = 77
		for _, parts := range [][]fetchPart{{f.all[0], f.all[2]}, {f.all[3]}} {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = parts[0].name, parts[0].id
			for _, p := range parts {
				part := kmsg.NewFetchResponseTopicPartition()
				part.Partition, part.ErrorCode = p.index, p.errorCode
				part.HighWatermark, part.LastStableOffset, part.LogStartOffset = p.hw, p.hw, p.start
				part.RecordBatches = bytes.Join(p.pieces, nil)
				if part.RecordBatches == nil {
					part.RecordBatches = []byte{}
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			want.Topics = append(want.Topics, topic)
		}
		var o output
		f.appendFrame(&o, 5)
		got := bytes.Join(o.buffers(), nil)
		if len(o.cuts) != 2 {
			t.Errorf("version %d: %d pieces uncopied", v, len(o.cuts))
		}
		if wanted := appendResponse(nil, 5, want); !bytes.Equal(got, wanted) {
			t.Errorf("version %d: got %d bytes, want %d\n%x\n%x", v, len(got), len(wanted), got[:60], wanted[:60])
		}
		if got := f.AppendTo(nil); !bytes.Equal(got, want.AppendTo(nil)) {
			t.Errorf("version %d: AppendTo differs", v)
		}
	}
}

// FuzzFrame: whatever comes, the reader's path decodes it or refuses it.
func FuzzFrame(f *testing.F) {
	table := newTable(apis())
	for _, row := range table.rows {
		for v := row.oldest; v <= row.max; v++ {
			req := kmsg.RequestForKey(row.key)
			f.Add(requestFrame(f, req, v))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := parseHeader(frame)
		if err != nil {
			return
		}
		// The same body as every key and version that could be meant by its first bytes.
		if req, row, err := table.decode(h); err == nil && req.Body != nil {
			if v := req.Body.GetVersion(); v < row.oldest || v > row.max {
				t.Fatalf("key %d: version %d got through", h.key, v)
			}
		}
		if n := len(table.rows); n > 0 {
			row := table.rows[int(uint16(h.correlationID))%n]
			h.key, h.version = row.key, row.oldest+int16(uint16(h.version))%(row.max-row.oldest+1)
			if h.version < row.oldest {
				h.version = row.oldest
			}
			_, _, _ = table.decode(h)
		}
	})
}
