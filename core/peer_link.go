package core

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// keepQueueBytes is how much of an empty queue stays allocated.
const keepQueueBytes = 64 << 10

// link is one lane to one node: a queue of encoded requests, a goroutine that connects and writes, one that reads while there is a connection. Answers
// come in the order of the requests. All that is queued or under way fails when a connection breaks or can't be made.
//
// While it writes it asks for a sign of life, twice a second at most, behind what it writes. A peer that gives none is cut off or hangs; the
// operating system would find out minutes later.
type link struct {
	p      *tcpPeers
	to     int32
	lane   Lane
	seldom seldom
	ended  chan struct{}
	again  chan struct{} // capacity 1: don't wait any longer before the next try

	mu      sync.Mutex
	cond    sync.Cond // out got its first bytes, broken, or ended
	out     []byte    // frames to be written
	calls   int       // in out
	queued  []*call   // of these, those that have an answer
	waiting []*call   // written, the oldest first
	next    int32     // correlation id
	conn    *peerConn // nil: none
	broken  error     // conn is
	isOther bool      // the next try is made at the node's other address
	pinged  time.Time // when a sign of life was asked for
	isEnded bool
}

// call is a request whose answer is expected.
type call struct {
	req           kmsg.Request
	correlationID int32
	done          func(kmsg.Response, error) // nil: nobody wants it
	wait          time.Duration
	due           time.Time
}

func newLink(p *tcpPeers, to int32, lane Lane) *link {
	l := &link{p: p, to: to, lane: lane, ended: make(chan struct{}), again: make(chan struct{}, 1)}
	l.cond.L = &l.mu
	return l
}

// frameLimit is the largest request of a lane.
func (l Lane) frameLimit() int {
	if l == LaneData {
		return maxPeerDataBytes
	}
	return maxPeerControlBytes
}

// queue takes a request. With an error it is the caller's to say so.
func (l *link) queue(req kmsg.Request, done func(kmsg.Response, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case req.Key() == keyRaft && done != nil:
		return errOneWay
	case l.isEnded:
		return errPeerGone
	case l.calls+len(l.waiting) >= maxQueuedCalls, len(l.out) >= maxQueuedBytes:
		return errPeerFull
	}
	before := len(l.out)
	l.next++
	out := appendRequest(l.out, l.next, req)
	if n := len(out) - before - sizeBytes; n > l.lane.frameLimit() {
		l.out = out[:before]
		return fmt.Errorf("%w: %d bytes", errFrameSize, n)
	}
	l.out = out
	l.calls++
	if req.Key() != keyRaft {
		l.queued = append(l.queued, &call{req: req, correlationID: l.next, done: done, wait: answerWaitOf(req)})
	}
	if before == 0 {
		l.cond.Broadcast()
	}
	return nil
}

func answerWaitOf(req kmsg.Request) time.Duration {
	if f, ok := req.(*kmsg.FetchRequest); ok {
		return time.Duration(max(0, f.MaxWaitMillis))*time.Millisecond + fetchAnswerWait
	}
	return answerWait
}

// run connects when there is something to say, and serves the connection, until the link is ended.
func (l *link) run() {
	var pause time.Duration
	for l.hasWork() {
		began := time.Now()
		c, err := l.dial()
		if err == nil {
			l.p.cfg.Logger.Debug("peer connected", "node", l.to, "lane", l.lane, "address", c.nc.RemoteAddr().String())
			err = l.serve(c)
		}
		l.failAll(err)
		l.report(err)
		if pause = min(max(firstRedial, 2*pause), longestRedial); time.Since(began) > 2*longestRedial && c != nil {
			pause = firstRedial
		}
		l.pause(pause/2 + rand.N(pause))
	}
	l.failAll(errPeerGone)
}

// dial connects. When that fails, the next try is made at the other address, if the node has two.
func (l *link) dial() (*peerConn, error) {
	l.mu.Lock()
	isOther := l.isOther
	l.mu.Unlock()
	c, err := l.p.dial(l.p.address(l.to, isOther), l.to, l.lane)
	if err != nil {
		l.mu.Lock()
		l.isOther = !isOther
		l.mu.Unlock()
	}
	return c, err
}

// hasWork waits for a request; false: the link is ended.
func (l *link) hasWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.out) == 0 && !l.isEnded {
		l.cond.Wait()
	}
	return !l.isEnded
}

// pause waits before the next try, unless there is a reason to think that it succeeds now.
func (l *link) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.again:
	case <-l.ended:
	}
}

func (l *link) report(err error) {
	select {
	case <-l.ended:
		return
	default:
	}
	msg := "a node can't be reached"
	if needsSomeone(err) {
		msg = "a node isn't taken for a peer"
	}
	l.seldom.say(l.p.cfg.Logger, slog.LevelWarn, l.p.cfg.Now(), msg, "node", l.to, "lane", l.lane, "error", err)
}

// serve writes here and reads on another goroutine until the connection ends.
func (l *link) serve(c *peerConn) error {
	l.mu.Lock()
	l.conn, l.broken, l.pinged = c, nil, time.Time{}
	l.mu.Unlock()
	var reading sync.WaitGroup
	reading.Go(func() { l.breakOff(l.read(c)) })
	l.breakOff(l.write(c))
	l.p.hangUp(c)
	reading.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	return l.broken
}

// breakOff ends the present connection. The first reason is what counts.
func (l *link) breakOff(err error) {
	l.mu.Lock()
	if l.broken == nil {
		l.broken = err
	}
	if l.conn != nil {
		_ = l.conn.nc.Close() // err is what matters
	}
	l.cond.Broadcast()
	l.mu.Unlock()
}

// write writes what is queued, all that there is at a time.
func (l *link) write(c *peerConn) error {
	var spare []byte
	for {
		out, err := l.take(spare)
		if err != nil {
			return err
		}
		if err := c.nc.SetWriteDeadline(time.Now().Add(peerWriteWait + slowness(len(out)))); err != nil {
			return err
		}
		if _, err := c.nc.Write(out); err != nil {
			return silence(err)
		}
		if spare = out[:0]; cap(spare) > keepQueueBytes {
			spare = nil
		}
	}
}

// slowness is how long a slow peer may take for n bytes.
func slowness(n int) time.Duration { return time.Duration(n) * time.Second / slowestPeer }

// take waits for something to write. From then on its answers are expected.
func (l *link) take(spare []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.out) == 0 && l.broken == nil && !l.isEnded {
		l.cond.Wait()
	}
	switch {
	case l.isEnded:
		return nil, errPeerGone
	case l.broken != nil:
		return nil, l.broken
	}
	out := l.out
	l.out, l.calls = spare, 0
	now := time.Now()
	isIdle := len(l.waiting) == 0
	if now.Sub(l.pinged) >= pingEvery {
		l.pinged = now
		l.next++
		ping := &call{req: &privateRequest{key: keyAttachPeer}, correlationID: l.next, wait: pingWait}
		out = appendRequest(out, l.next, ping.req)
		l.queued = append(l.queued, ping)
	}
	for _, c := range l.queued {
		c.due = now.Add(c.wait + slowness(len(out)))
		if n := len(l.waiting); n > 0 && c.due.Before(l.waiting[n-1].due) {
			c.due = l.waiting[n-1].due // it is answered after that one
		}
		l.waiting = append(l.waiting, c)
	}
	clear(l.queued)
	l.queued = l.queued[:0]
	if isIdle && len(l.waiting) > 0 {
		return out, l.conn.nc.SetReadDeadline(l.waiting[0].due)
	}
	return out, nil
}

// read takes answers until the connection ends.
func (l *link) read(c *peerConn) error {
	limit := maxPeerControlBytes
	if l.lane == LaneData {
		limit = l.p.cfg.AnswerBytes
	}
	var records answerBuffer
	for {
		n, correlationID, err := c.readHead(limit)
		if err != nil {
			return silence(err)
		}
		var body []byte
		if l.lane == LaneData {
			body = records.get(n)
		} else {
			body = make([]byte, n)
		}
		if err := c.readBody(body, fetchAnswerWait); err != nil {
			return silence(err)
		}
		call, err := l.answered(correlationID)
		if err != nil {
			return err
		}
		resp, err := decodeAnswer(call.req, body)
		if call.done != nil {
			call.done(resp, err)
			if _, ok := resp.(*kmsg.FetchResponse); !ok {
				records = answerBuffer{} // it is done's for good
			}
		}
		if err != nil {
			return err
		}
	}
}

// answered is the call that an answer belongs to. The next one's time begins now, since the peer had this one to do before.
func (l *link) answered(correlationID int32) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 || l.waiting[0].correlationID != correlationID {
		return nil, fmt.Errorf("%w: correlation id %d is not the next one's", errPeerAnswer, correlationID)
	}
	c := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	due := time.Time{}
	if len(l.waiting) > 0 {
		head := l.waiting[0]
		if due = time.Now().Add(head.wait); due.Before(head.due) {
			due = head.due
		}
	}
	_ = l.conn.nc.SetReadDeadline(due) // if it is closed, the next read says so
	return c, nil
}

// failAll fails what is queued and what is under way.
func (l *link) failAll(err error) {
	l.mu.Lock()
	failed := append(l.waiting, l.queued...)
	l.out, l.calls, l.queued, l.waiting = nil, 0, nil, nil
	l.mu.Unlock()
	for _, c := range failed {
		if c.done != nil {
			c.done(nil, fmt.Errorf("call node %d: %w", l.to, err))
		}
	}
}

// end has run return soon.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isEnded {
		return
	}
	l.isEnded = true
	close(l.ended)
	if l.broken == nil {
		l.broken = errPeerGone
	}
	if l.conn != nil {
		_ = l.conn.nc.Close() // run fails what it held
	}
	l.cond.Broadcast()
}

// redial makes the next try come soon; isMoved: what is connected is the wrong one.
func (l *link) redial(isMoved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOther = false
	select {
	case l.again <- struct{}{}:
	default:
	}
	if isMoved && l.conn != nil && l.broken == nil {
		l.broken = errPeerMoved
		_ = l.conn.nc.Close() // run dials the new address
		l.cond.Broadcast()
	}
}
