package core

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/weirlog/weir/core/meta"
)

const (
	maxFormConns     = 64
	maxFormBytes     = 64 << 10 // of a frame
	formConnWait     = 10 * time.Second
	formRefusedEvery = time.Minute
)

var errForming = errors.New("this node is in no cluster yet")

// formDoor serves those who form a cluster with this node, and nobody else: private keys over connections that prove to have the secret. Clients are
// hung up on; they try again.
type formDoor struct {
	g    *forming
	self string
	ln   net.Listener

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	isClosed bool
	refused  time.Time
	serving  sync.WaitGroup
}

// deadliner is a listener whose Accept can be made to return without closing it.
type deadliner interface{ SetDeadline(t time.Time) error }

func newFormDoor(g *forming, ln net.Listener, self string) (*formDoor, error) {
	if _, ok := ln.(deadliner); !ok {
		return nil, fmt.Errorf("%w: nodes can't be served over a %T", errJoin, ln)
	}
	return &formDoor{g: g, self: self, ln: ln, conns: make(map[net.Conn]struct{})}, nil
}

// run accepts until close.
func (d *formDoor) run() {
	for {
		nc, err := d.ln.Accept()
		d.mu.Lock()
		isClosed, isFull := d.isClosed, len(d.conns) >= maxFormConns
		if err == nil && !isClosed && !isFull {
			d.conns[nc] = struct{}{}
			d.serving.Go(func() { d.serve(nc) })
		}
		d.mu.Unlock()
		switch {
		case err == nil && (isClosed || isFull):
			_ = nc.Close() // nothing was said
		case err != nil && !isClosed:
			d.g.log.Warn("can't accept a connection, trying again", "listener", d.ln.Addr().String(), "error", err)
			d.pause(acceptPause)
		}
		if isClosed {
			d.serving.Wait()
			return
		}
	}
}

func (d *formDoor) pause(wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.g.ended:
	}
}

// close ends run soon. What waits for its answer doesn't get one, and asks again.
func (d *formDoor) close() error {
	d.mu.Lock()
	d.isClosed = true
	for nc := range d.conns {
		_ = nc.Close() // nothing more is said
	}
	d.mu.Unlock()
	return d.setDeadline(time.Unix(1, 0))
}

// reopen leaves the listener as it was. run must have returned.
func (d *formDoor) reopen() error { return d.setDeadline(time.Time{}) }

func (d *formDoor) setDeadline(t time.Time) error {
	if err := d.ln.(deadliner).SetDeadline(t); err != nil {
		return fmt.Errorf("end forming: %w", err)
	}
	return nil
}

// serve attaches a peer and answers it.
func (d *formDoor) serve(nc net.Conn) {
	err := d.converse(nc)
	_ = nc.Close() // what was to be said has been
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, nc)
	now := d.g.cfg.Now()
	if needsSomeone(err) && now.Sub(d.refused) >= formRefusedEvery {
		d.refused = now
		d.g.log.Warn("a node isn't taken for a peer", "address", peerHost(nc), "error", err)
	}
}

func (d *formDoor) converse(nc net.Conn) error {
	var attach attachServer
	isAttached := false
	for {
		limit, wait := int32(maxAttachBytes), attachWait
		if isAttached {
			limit, wait = maxFormBytes, formConnWait
		}
		h, err := readFormFrame(nc, limit, wait)
		if err != nil {
			return err
		}
		var ask privateRequest
		if err := ask.ReadFrom(h.body); err != nil {
			return err
		}
		ask.key = h.key
		var resp *privateResponse
		switch {
		case !isAttached && h.key != keyAttachPeer:
			return errNotAttached
		case !isAttached:
			resp = &privateResponse{key: keyAttachPeer}
			if attach.hello == nil {
				resp.body, err = attach.begin(d.g.cfg.ClusterSecret, peerSelf{Address: d.self}, ask.body, d.g.cfg.Rand)
			} else {
				resp.body, err = attach.finish(ask.body)
				isAttached = err == nil
			}
			if err != nil {
				resp = refusal(keyAttachPeer, err)
			}
		default:
			resp = d.ask(ask)
		}
		if resp == nil {
			return errClosing
		}
		if _, werr := nc.Write(appendResponse(nil, h.correlationID, resp)); werr != nil || err != nil {
			return errOf(err, werr)
		}
	}
}

// readFormFrame reads one request.
func readFormFrame(nc net.Conn, limit int32, wait time.Duration) (header, error) {
	if err := nc.SetDeadline(time.Now().Add(wait)); err != nil {
		return header{}, err
	}
	var size [sizeBytes]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return header{}, err
	}
	n, err := frameSize(size, limit)
	if err != nil {
		return header{}, err
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(nc, frame); err != nil {
		return header{}, err
	}
	if key := int16(binary.BigEndian.Uint16(frame)); key < firstPrivateKey {
		return header{}, errNotAttached // a client; its header may be of a kind that has no body to read
	}
	return parseHeader(frame)
}

// ask has the former answer; nil: it has ended.
func (d *formDoor) ask(ask privateRequest) *privateResponse {
	answered := make(chan *privateResponse, 1)
	if !d.g.do(func(time.Time) { answered <- d.g.serve(ask) }) {
		return nil
	}
	return <-answered
}

// serve answers one request, on run's goroutine. A Found is answered when it is durable.
func (g *forming) serve(ask privateRequest) *privateResponse {
	var answer any
	switch ask.key {
	case keyProbe:
		answer = g.f.probe()
	case keyFound:
		var r foundRequest
		err := json.Unmarshal(ask.body, &r)
		var i *meta.Identity
		if err == nil {
			i, err = g.f.takeFound(r)
		}
		if err == nil {
			err = g.write(*i)
		}
		if err == nil {
			err = g.f.wrote(*i)
		}
		if err != nil {
			g.log.Warn("not founded", "by", r.Address, "error", err)
			return refusal(ask.key, err)
		}
		answer = struct{}{}
	default:
		return refusal(ask.key, errForming)
	}
	return privateAnswer(ask.key, answer)
}
