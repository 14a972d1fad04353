package core

import (
	"encoding/binary"
	"log/slog"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// smallPieceBytes is the size below which records are copied between the encoded bytes instead of written apart.
const smallPieceBytes = 2 << 10

// partAnswerBytes is about what a partition takes in a fetch answer, its records apart.
const partAnswerBytes = 48

// keepOutputBytes is how much an idle connection's writer keeps allocated.
const keepOutputBytes = 16 << 10

// output is what a connection writes next: encoded bytes, with pieces of logs between them that are not copied.
type output struct {
	buf     []byte
	cuts    []cut
	inCuts  int
	granted int64   // bytes of fetches, given back when they are written
	charged []*slot // whose answers these are, uncharged when they are written
}

// cut is a piece that belongs before buf[at].
type cut struct {
	at    int
	piece []byte
}

func (o *output) size() int { return len(o.buf) + o.inCuts }

// piece adds b, which must not change until o is written.
func (o *output) piece(b []byte) {
	if len(b) < smallPieceBytes {
		o.buf = append(o.buf, b...)
		return
	}
	o.cuts = append(o.cuts, cut{at: len(o.buf), piece: b})
	o.inCuts += len(b)
}

// buffers is all of o in order. It is valid until o changes.
func (o *output) buffers() net.Buffers {
	list := make(net.Buffers, 0, 2*len(o.cuts)+1)
	from := 0
	for _, c := range o.cuts {
		if c.at > from {
			list = append(list, o.buf[from:c.at])
		}
		list = append(list, c.piece)
		from = c.at
	}
	if from < len(o.buf) {
		list = append(list, o.buf[from:])
	}
	return list
}

func (o *output) reset() {
	clear(o.cuts)
	clear(o.charged)
	*o = output{buf: o.buf[:0], cuts: o.cuts[:0], charged: o.charged[:0]}
	if cap(o.buf) > keepOutputBytes {
		o.buf = nil
	}
	if cap(o.cuts) > keepOutputBytes/64 {
		o.cuts = nil
	}
}

// wants is the most that the answer may hold.
func (f *fetch) wants() int64 {
	sum := int64(0)
	for _, p := range f.parts {
		if p.next < p.part.HighWatermark() {
			sum += int64(max(0, p.maxBytes))
		}
	}
	return min(sum, int64(max(0, f.maxBytes)))
}

// AppendTo reads the records and encodes the answer's body. It may block on the disk.
func (f *fetch) AppendTo(dst []byte) []byte {
	o := output{buf: dst}
	f.read()
	f.encode(&o)
	if len(o.cuts) == 0 {
		return o.buf
	}
	var all []byte
	for _, piece := range o.buffers() {
		all = append(all, piece...)
	}
	return all
}

// appendFrame reads the records and adds the whole response frame to o.
func (f *fetch) appendFrame(o *output, correlationID int32) {
	f.read()
	start, before := len(o.buf), o.size()
	o.buf = append(o.buf, 0, 0, 0, 0)
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(correlationID))
	if f.IsFlexible() {
		o.buf = append(o.buf, 0)
	}
	f.encode(o)
	binary.BigEndian.PutUint32(o.buf[start:], uint32(o.size()-before-sizeBytes))
}

// read reads every partition's records, in the order asked, within the limits, and brings the session up to date.
func (f *fetch) read() {
	if f.follower != nil {
		f.follower.read(f)
		return
	}
	left, found := int(f.maxBytes), false
	for _, p := range f.parts {
		f.readPart(p, left, found)
		found = found || p.size > 0
		left = max(0, left-p.size)
	}
	switch {
	case f.ErrorCode != 0:
	case f.session != nil:
		f.continueSession()
	case f.isInitial && len(f.all) > 0:
		f.beginSession()
	}
}

func (f *fetch) continueSession() {
	if err := f.session.answer(f.sessionEpoch, f.all); err != nil {
		f.ErrorCode, f.all = code(err), nil
		return
	}
	f.SessionID = f.session.id
}

func (f *fetch) beginSession() {
	if !f.b.sessions.mayHold(len(f.all)) {
		return
	}
	parts := make([]*sessionPart, 0, len(f.all))
	for _, isServed := range []bool{false, true} { // those with records wait for their next turn at the end
		for i := range f.all {
			p := &f.all[i]
			if p.size > 0 != isServed {
				continue
			}
			c := &sessionPart{fetchAsk: p.fetchAsk, hw: -1, start: -1}
			if p.errorCode == 0 {
				c.hw, c.start = p.hw, p.start
			}
			parts = append(parts, c)
		}
	}
	if s := f.b.sessions.create(f.Version >= 13, parts, f.b.cfg.Now()); s != nil {
		f.SessionID = s.id
	}
}

// readPart reads at most leftBytes of a partition, or, if nothing was found yet, at least one batch.
func (f *fetch) readPart(p *fetchPart, leftBytes int, found bool) {
	log, hw := p.part.Log(), p.part.HighWatermark()
	if err := p.part.CheckEpoch(p.epoch); err != nil { // it waited
		f.fail(p, err)
		return
	}
	if f.b.cfg.Faults.ServeUnstable {
		hw = log.EndOffset()
	}
	p.hw, p.start = hw, log.StartOffset()
	if p.next >= hw || found && leftBytes == 0 {
		return
	}
	pieces, err := log.Read(p.next, hw, min(leftBytes, int(max(0, p.maxBytes))), nil)
	if err != nil {
		if p.errorCode = code(err); p.errorCode != kerr.OffsetOutOfRange.Code && p.errorCode != kerr.UnknownTopicOrPartition.Code {
			f.b.failures.say(f.b.log, slog.LevelError, f.b.cfg.Now(), "fetch failed", "topic", p.part.Topic, "partition", p.part.Index, "next", p.next, "error", err)
		}
		return
	}
	n := 0
	for _, piece := range pieces {
		n += len(piece)
	}
	if found && n > leftBytes {
		return // a batch larger than what is left waits for its turn at the head
	}
	p.pieces, p.size = pieces, n
	f.b.stats.fetchedBytes.Add(int64(n))
}

// encode writes the body as kmsg would (a test compares them), with the records as pieces.
//
//	throttle i32 | [7+: error i16, session i32] | topics: (name | 13+: id), partitions:
//	  index i32 | error i16 | high watermark, last stable i64 | [5+: start i64] | aborted null | [11+: replica i32] | records |
//	  tags: 0 diverging epoch (epoch i32, end i64), 1 current leader (id, epoch i32)
//	tags: 0 the leaders' nodes (id i32, host, port i32, rack)
func (f *fetch) encode(o *output) {
	v := f.Version
	flexible := v >= 12
	o.buf = binary.BigEndian.AppendUint32(o.buf, 0)
	if v >= 7 {
		o.buf = binary.BigEndian.AppendUint16(o.buf, uint16(f.ErrorCode))
		o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(f.SessionID))
	}
	topics, count := f.byTopic()
	o.buf = slices.Grow(o.buf, count*partAnswerBytes)
	o.buf = appendLength(o.buf, len(topics), flexible)
	for _, parts := range topics {
		key := &parts[0].fetchKey
		switch {
		case v >= 13:
			o.buf = append(o.buf, key.id[:]...)
		case flexible:
			o.buf = append(appendLength(o.buf, len(key.name), true), key.name...)
		default:
			o.buf = append(binary.BigEndian.AppendUint16(o.buf, uint16(len(key.name))), key.name...)
		}
		o.buf = appendLength(o.buf, len(parts), flexible)
		for _, p := range parts {
			p.encode(o, v)
		}
		o.tags(flexible)
	}
	if flexible {
		f.encodeNodes(o)
	}
}

// encodeNodes tells where the leaders are that partitions have named.
func (f *fetch) encodeNodes(o *output) {
	var told []int32
	var nodes []byte
	for i := range f.all {
		l := f.all[i].leader
		if l == nil || f.all[i].isKnown || slices.Contains(told, l.id) {
			continue
		}
		if n, ok := f.b.endpoint(l.id); ok {
			told = append(told, l.id)
			nodes = binary.BigEndian.AppendUint32(nodes, uint32(n.ID))
			nodes = append(appendLength(nodes, len(n.Host), true), n.Host...)
			nodes = binary.BigEndian.AppendUint32(nodes, uint32(n.Port))
			if n.Rack == "" {
				nodes = appendLength(nodes, -1, true)
			} else {
				nodes = append(appendLength(nodes, len(n.Rack), true), n.Rack...)
			}
			nodes = append(nodes, 0)
		}
	}
	if len(told) == 0 {
		o.tags(true)
		return
	}
	o.buf = append(o.buf, 1)
	o.tag(0, append(appendLength(nil, len(told), true), nodes...))
}

// tag writes one tagged field.
func (o *output) tag(number uint64, value []byte) {
	o.buf = binary.AppendUvarint(o.buf, number)
	o.buf = binary.AppendUvarint(o.buf, uint64(len(value)))
	o.buf = append(o.buf, value...)
}

// byTopic gathers the partitions to answer, those of one topic that follow each other together.
func (f *fetch) byTopic() (topics [][]*fetchPart, count int) {
	for i := range f.all {
		p := &f.all[i]
		if p.isKnown {
			continue
		}
		n := len(topics)
		if n == 0 || topics[n-1][0].name != p.name || topics[n-1][0].id != p.id {
			topics = append(topics, nil)
			n++
		}
		topics[n-1] = append(topics[n-1], p)
		count++
	}
	return topics, count
}

func (p *fetchPart) encode(o *output, v int16) {
	flexible := v >= 12
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(p.index))
	o.buf = binary.BigEndian.AppendUint16(o.buf, uint16(p.errorCode))
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.hw))
	o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.hw)) // last stable offset
	if v >= 5 {
		o.buf = binary.BigEndian.AppendUint64(o.buf, uint64(p.start))
	}
	o.buf = appendLength(o.buf, -1, flexible) // aborted transactions
	if v >= 11 {
		o.buf = binary.BigEndian.AppendUint32(o.buf, ^uint32(0)) // preferred replica
	}
	o.buf = appendLength(o.buf, p.size, flexible)
	for _, piece := range p.pieces {
		o.piece(piece)
	}
	if flexible {
		p.encodeTags(o)
	}
}

func (p *fetchPart) encodeTags(o *output) {
	if p.diverging == nil && p.leader == nil {
		o.tags(true)
		return
	}
	count := byte(0)
	if p.diverging != nil {
		count++
	}
	if p.leader != nil {
		count++
	}
	o.buf = append(o.buf, count)
	if d := p.diverging; d != nil {
		value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(d.Epoch)), uint64(d.End))
		o.tag(0, append(value, 0))
	}
	if l := p.leader; l != nil {
		value := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(l.id)), uint32(l.epoch))
		o.tag(1, append(value, 0))
	}
}

// tags ends a structure that has no tagged fields.
func (o *output) tags(flexible bool) {
	if flexible {
		o.buf = append(o.buf, 0)
	}
}

// appendLength writes the length of an array or of bytes, -1 for null.
func appendLength(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}
