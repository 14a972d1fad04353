package core

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	peerReadBytes   = 64 << 10
	answerHeadBytes = sizeBytes + 4 // size and correlation id
	maxRefusalText  = 500

	keepAnswerBytes = 256 << 10 // what a data lane's answers may keep allocated for good
	manySmall       = 64        // after so many that needed a quarter at most, more is given up
)

// peerConn is a connection to another node, the client's side.
type peerConn struct {
	nc net.Conn
	br *bufio.Reader
}

func newPeerConn(nc net.Conn) *peerConn {
	return &peerConn{nc: nc, br: bufio.NewReaderSize(nc, peerReadBytes)}
}

// appendRequest adds one whole request frame to dst.
func appendRequest(dst []byte, correlationID int32, req kmsg.Request) []byte {
	const clientID = "weir"
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if req.IsFlexible() {
		dst = append(dst, 0)
	}
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-sizeBytes))
	return dst
}

// ask sends a private request and reads its answer. Nothing else may be under way.
func (c *peerConn) ask(req *privateRequest, wait time.Duration) (*privateResponse, error) {
	if err := c.nc.SetDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(appendRequest(nil, 0, req)); err != nil {
		return nil, err
	}
	limit := maxPeerControlBytes
	if req.key == keyAttachPeer {
		limit = maxAttachBytes
	}
	n, _, err := c.readHead(limit)
	if err != nil {
		return nil, silence(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.br, body); err != nil {
		return nil, silence(err)
	}
	resp := &privateResponse{key: req.key}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %w", errPeerAnswer, err)
	}
	return resp, c.nc.SetDeadline(time.Time{})
}

// readHead reads the beginning of an answer; sizeOfRest bytes are left of it.
func (c *peerConn) readHead(limit int) (sizeOfRest int, correlationID int32, err error) {
	var head [answerHeadBytes]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return 0, 0, err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	if n < answerHeadBytes-sizeBytes || n > int64(limit) {
		return 0, 0, fmt.Errorf("%w: %d bytes, at most %d are expected", errPeerAnswer, n, limit)
	}
	return int(n) - (answerHeadBytes - sizeBytes), int32(binary.BigEndian.Uint32(head[sizeBytes:])), nil
}

// answerBuffer is memory for one answer after the other.
type answerBuffer struct {
	buf   []byte
	small int // answers in a row that needed much less
}

// get is n bytes, which are there until the next get. What large answers needed is given up when there are none any more.
func (a *answerBuffer) get(n int) []byte {
	if a.small++; n > cap(a.buf)/4 || cap(a.buf) <= keepAnswerBytes {
		a.small = 0
	}
	if n > cap(a.buf) || a.small > manySmall {
		a.buf, a.small = make([]byte, n+n/4), 0 // the next one may be a little larger
	}
	return a.buf[:n]
}

// readBody reads the rest of an answer into body. The peer may take long for it, but must go on.
func (c *peerConn) readBody(body []byte, wait time.Duration) error {
	for rest := body; len(rest) > 0; {
		if err := c.nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		part := rest[:min(len(rest), frameChunkBytes)]
		if _, err := io.ReadFull(c.br, part); err != nil {
			return err
		}
		rest = rest[len(part):]
	}
	return nil
}

// decodeAnswer is a request's answer from the bytes behind the correlation id. It aliases them.
func decodeAnswer(req kmsg.Request, body []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, fmt.Errorf("%w: %w", errPeerAnswer, err)
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: key %d: %w", errPeerAnswer, req.Key(), err)
	}
	return resp, nil
}

// silence names what a deadline means.
func silence(err error) error {
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		return fmt.Errorf("%w: %w", errPeerSilent, err)
	}
	return err
}

// refusedBy is why a peer refused, nil if it didn't. The text is the peer's, and nothing is proved yet.
func refusedBy(resp *privateResponse) error {
	if resp.code == 0 {
		return nil
	}
	text := resp.body[:min(len(resp.body), maxRefusalText)]
	for _, known := range []error{errPeerSecret, errNoSecret, errPeerCluster, errPeerID, errPeerOther} {
		if code(known) == resp.code {
			return fmt.Errorf("refused: %w (it says %q)", known, text)
		}
	}
	return fmt.Errorf("refused: %q, code %d", text, resp.code)
}

// needsSomeone says that a peer can't be reached until someone mends its configuration or ours.
func needsSomeone(err error) bool {
	return errors.Is(err, errPeerSecret) || errors.Is(err, errNoSecret) || errors.Is(err, errPeerCluster) || errors.Is(err, errPeerID)
}
