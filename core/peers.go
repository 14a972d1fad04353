package core

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lane is one of the connections to a peer.
type Lane int8

// The lanes. What is on one never waits for the other.
const (
	LaneControl Lane = iota // raft, and the seldom ones
	LaneData                // Fetch
)

// Peers is how this node reaches others: over TCP (peers_tcp.go), or in memory where a whole cluster is stepped (core/coretest).
type Peers interface {
	// Call sends a request to a node, behind what went before on the lane. It doesn't block, and takes no lock but its own.
	// done, unless it is nil, is called exactly once, perhaps before Call returns, never under a lock of the caller's kind: with the
	// response, or with the reason why there is none (errPeerGone, errPeerBusy). A nil done asks for no response: what can't be sent is dropped.
	// The request must not be changed afterwards; the response is the callee's.
	Call(to int32, lane Lane, req kmsg.Request, done func(kmsg.Response, error))
	// SetNodes says where nodes are: HOST:PORT by id. Nodes that are not named any more are disconnected.
	SetNodes(nodes map[int32]string)
}

// Errors of calls to peers.
var (
	errPeerGone = errors.New("the node can't be reached")
	errPeerBusy = errors.New("too much is under way to the node")
)

// Private API keys lie above all of Kafka's and are not advertised. Nodes that have proven that they know the cluster's secret
// may use them.
const (
	keyAttachPeer int16 = 32000 + iota // who is speaking, and the proof; first on every connection of a peer
	keyRaft                            // messages of the metadata's raft group; no answer
	keyProbe                           // is your folder fresh?
	keyFound                           // be a founding member of this cluster
	keyJoin                            // give me an id in your cluster
)

// peerRequest is a request with a private key: one field of bytes, whose meaning is the key's.
//
//	body int32 length, bytes
type peerRequest struct {
	key  int16
	Body []byte
}

func (r *peerRequest) Key() int16                  { return r.key }
func (*peerRequest) MaxVersion() int16             { return 0 }
func (*peerRequest) SetVersion(int16)              {}
func (*peerRequest) GetVersion() int16             { return 0 }
func (*peerRequest) IsFlexible() bool              { return false }
func (r *peerRequest) ResponseKind() kmsg.Response { return &peerResponse{key: r.key} }

func (r *peerRequest) AppendTo(dst []byte) []byte { return appendBody(dst, r.Body) }

func (r *peerRequest) ReadFrom(src []byte) (err error) {
	r.Body, err = readBody(src)
	return err
}

// peerResponse answers a peerRequest: an error code of Kafka's, and bytes.
//
//	error int16 | body int32 length, bytes
type peerResponse struct {
	key       int16
	ErrorCode int16
	Body      []byte
}

func (r *peerResponse) Key() int16                { return r.key }
func (*peerResponse) MaxVersion() int16           { return 0 }
func (*peerResponse) SetVersion(int16)            {}
func (*peerResponse) GetVersion() int16           { return 0 }
func (*peerResponse) IsFlexible() bool            { return false }
func (r *peerResponse) RequestKind() kmsg.Request { return &peerRequest{key: r.key} }

func (r *peerResponse) AppendTo(dst []byte) []byte {
	return appendBody(binary.BigEndian.AppendUint16(dst, uint16(r.ErrorCode)), r.Body)
}

func (r *peerResponse) ReadFrom(src []byte) (err error) {
	if len(src) < 2 {
		return errShortHeader
	}
	r.ErrorCode = int16(binary.BigEndian.Uint16(src))
	r.Body, err = readBody(src[2:])
	return err
}

func appendBody(dst, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...)
}

// readBody takes the bytes of a field that must be all of src. They alias it.
func readBody(src []byte) ([]byte, error) {
	if len(src) < 4 || uint64(binary.BigEndian.Uint32(src)) != uint64(len(src)-4) {
		return nil, errShortHeader
	}
	return src[4:], nil
}

var (
	_ kmsg.Request  = (*peerRequest)(nil)
	_ kmsg.Response = (*peerResponse)(nil)
)
