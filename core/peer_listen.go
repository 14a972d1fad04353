package core

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	maxFormingConns = 64               // at a time; others are closed
	formingIdle     = 30 * time.Second // a peer asks something within
)

// peerServer serves private keys on a listener while there is no broker yet: whoever has attached may Probe, Found and Join, and a client's
// connection ends with its first request.
type peerServer struct {
	cfg    peersConfig
	handle func(*Request, Done) // calls Done once, and doesn't block
	ended  chan struct{}

	refusals, seldom seldom

	serving sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	ln      deadlineListener // nil: not serving
	closed  bool
}

// deadlineListener is one that can be left without being closed.
type deadlineListener interface {
	net.Listener
	SetDeadline(t time.Time) error
}

func newPeerServer(cfg peersConfig, handle func(*Request, Done)) *peerServer {
	return &peerServer{cfg: cfg, handle: handle, ended: make(chan struct{}), conns: make(map[net.Conn]struct{})}
}

// serve accepts peers until close, and leaves ln open then. Any other end is an error.
func (s *peerServer) serve(ln net.Listener) error {
	l, ok := ln.(deadlineListener)
	if !ok {
		return fmt.Errorf("listener %s can't be left without being closed", ln.Addr())
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.ln = l
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			s.accept(nc)
		case s.isClosed() && errors.Is(err, os.ErrDeadlineExceeded):
			return l.SetDeadline(time.Time{})
		case passes(err):
			s.cfg.Logger.Warn("can't accept a connection, trying again", "listener", ln.Addr().String(), "error", err)
			s.pause()
		default:
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
	}
}

func (s *peerServer) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *peerServer) pause() {
	t := time.NewTimer(acceptPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ended:
	}
}

// close ends serve and all connections, and waits for them. The listener remains its owner's.
func (s *peerServer) close() error {
	s.mu.Lock()
	var err error
	if !s.closed {
		s.closed = true
		close(s.ended)
		if s.ln != nil {
			err = s.ln.SetDeadline(time.Unix(1, 0))
		}
	}
	for nc := range s.conns {
		_ = nc.Close() // what it asked last has no answer
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

func (s *peerServer) accept(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxFormingConns {
		_ = nc.Close() // nothing was said
		return
	}
	s.conns[nc] = struct{}{}
	s.serving.Go(func() {
		refused, err := s.converse(nc)
		switch {
		case refused != nil:
			s.refusals.say(s.cfg.Logger, slog.LevelWarn, s.cfg.Now(), "peer refused", "peer", peerHost(nc), "error", refused)
		case err != nil && !errors.Is(err, io.EOF) && !s.isClosed():
			s.seldom.say(s.cfg.Logger, slog.LevelWarn, s.cfg.Now(), "connection closed while there is no broker yet", "peer", peerHost(nc), "error", err)
		}
		_ = nc.Close() // its last answer was written, or nobody reads it
		s.mu.Lock()
		delete(s.conns, nc)
		s.mu.Unlock()
	})
}

// converse answers one request after the other. refused is why the peer wasn't taken.
func (s *peerServer) converse(nc net.Conn) (refused, err error) {
	br := bufio.NewReaderSize(nc, readBufferBytes)
	var attaching attachServer
	isAttached := false
	for refused == nil {
		h, err := s.readRequest(nc, br, isAttached)
		if err != nil {
			return nil, err
		}
		ask := &privateRequest{key: h.key}
		if err := ask.ReadFrom(h.body); err != nil {
			return nil, err
		}
		var resp kmsg.Response
		if h.key == keyAttachPeer {
			resp, refused = s.attach(&attaching, ask.body, &isAttached)
		} else if resp, err = s.ask(nc, attaching.peer.ID, h, ask); err != nil {
			return nil, err
		}
		if err := nc.SetWriteDeadline(time.Now().Add(peerWriteWait)); err != nil {
			return refused, err
		}
		if _, err := nc.Write(appendResponse(nil, h.correlationID, resp)); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// readRequest reads a frame of a key that may be asked now.
func (s *peerServer) readRequest(nc net.Conn, br *bufio.Reader, isAttached bool) (header, error) {
	limit, wait := maxAttachBytes, attachWait
	if isAttached {
		limit, wait = maxPeerControlBytes, formingIdle
	}
	if err := nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return header{}, err
	}
	var size [sizeBytes]byte
	if _, err := io.ReadFull(br, size[:]); err != nil {
		return header{}, err
	}
	n, err := frameSize(size, int32(limit))
	if err != nil {
		return header{}, err
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(br, frame); err != nil {
		return header{}, err
	}
	h, err := parseHeader(frame)
	switch {
	case err != nil:
		return header{}, err
	case h.key < firstPrivateKey || h.key > keyJoin:
		return header{}, fmt.Errorf("%w: key %d, and this node isn't part of a cluster yet", errUnsupportedKey, h.key)
	case h.version != 0:
		return header{}, fmt.Errorf("%w: key %d version %d", errVersion, h.key, h.version)
	case h.key != keyAttachPeer && (!isAttached || h.key == keyRaft):
		return header{}, fmt.Errorf("%w: key %d", errNotAttached, h.key)
	}
	return h, nil
}

// attach takes a step of attaching. After a refusal the connection ends.
func (s *peerServer) attach(a *attachServer, ask []byte, isAttached *bool) (kmsg.Response, error) {
	var body []byte
	var err error
	switch {
	case *isAttached && len(ask) > 0:
		err = errAttach
	case *isAttached:
	case a.hello == nil:
		body, err = a.begin(s.cfg.Secret, s.cfg.Self(), ask, s.cfg.Rand)
	default:
		body, err = a.finish(ask)
		*isAttached = err == nil
	}
	if err != nil {
		return refusal(keyAttachPeer, err), err
	}
	return &privateResponse{key: keyAttachPeer, body: body}, nil
}

// ask hands a request on and waits for its answer.
func (s *peerServer) ask(nc net.Conn, from int32, h header, ask *privateRequest) (kmsg.Response, error) {
	answer := make(chan kmsg.Response, 1)
	req := &Request{Key: h.key, CorrelationID: h.correlationID, ClientID: h.clientID, ClientHost: peerHost(nc), Body: ask, Now: s.cfg.Now(), Peer: from}
	s.handle(req, func(resp kmsg.Response) { answer <- resp })
	select {
	case resp := <-answer:
		if _, ok := resp.(hangUp); ok || resp == nil {
			return nil, errClosing
		}
		return resp, nil
	case <-s.ended:
		return nil, errClosing
	}
}
