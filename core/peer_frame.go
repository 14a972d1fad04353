package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Private keys: what the nodes of a cluster ask of each other beside Fetch. They lie above all of Kafka's, have version 0 only, and are
// not advertised. Requests and answers have Kafka's headers (v1 and v0), and these bodies:
//
//	request   length int32 | bytes
//	response  error int16 | length int32 | bytes
//
// The bytes are JSON, those of Raft the messages of the metadata's group; with an error they are its text. Raft has no
// response: its answers are messages of their own, over the other node's connection.
const (
	keyAttachPeer int16 = 32000 + iota // first on every connection of a peer; on an attached one, with no bytes: are you there?
	keyRaft
	keyProbe
	keyFound
	keyJoin

	firstPrivateKey = keyAttachPeer

	maxPeerControlBytes = 16 << 20 // a frame of the control lane: raft's messages with the largest command of the metadata
	maxPeerDataBytes    = 32 << 20 // a request of the data lane: a Fetch that names every partition
	maxAttachBytes      = 2 << 10  // a frame of one that isn't attached
)

var errPrivateBody = errors.New("body of a private request can't be decoded")

// privateRequest is a request of any private key.
type privateRequest struct {
	key  int16
	body []byte
}

func (r *privateRequest) Key() int16                  { return r.key }
func (r *privateRequest) MaxVersion() int16           { return 0 }
func (r *privateRequest) SetVersion(int16)            {}
func (r *privateRequest) GetVersion() int16           { return 0 }
func (r *privateRequest) IsFlexible() bool            { return false }
func (r *privateRequest) ResponseKind() kmsg.Response { return &privateResponse{key: r.key} }
func (r *privateRequest) AppendTo(dst []byte) []byte  { return appendPrivateBody(dst, r.body) }

// ReadFrom takes the body, which aliases src.
func (r *privateRequest) ReadFrom(src []byte) (err error) {
	r.body, err = privateBody(src)
	return err
}

// privateResponse is the answer to a private key. code is Kafka's error code.
type privateResponse struct {
	key  int16
	code int16
	body []byte
}

func (r *privateResponse) Key() int16                { return r.key }
func (r *privateResponse) MaxVersion() int16         { return 0 }
func (r *privateResponse) SetVersion(int16)          {}
func (r *privateResponse) GetVersion() int16         { return 0 }
func (r *privateResponse) IsFlexible() bool          { return false }
func (r *privateResponse) RequestKind() kmsg.Request { return &privateRequest{key: r.key} }
func (r *privateResponse) AppendTo(dst []byte) []byte {
	return appendPrivateBody(binary.BigEndian.AppendUint16(dst, uint16(r.code)), r.body)
}

// ReadFrom takes the code and the body, which aliases src.
func (r *privateResponse) ReadFrom(src []byte) (err error) {
	if len(src) < 2 {
		return fmt.Errorf("%w: %d bytes", errPrivateBody, len(src))
	}
	r.code = int16(binary.BigEndian.Uint16(src))
	r.body, err = privateBody(src[2:])
	return err
}

// refusal is the answer to a private key that can't be served: the error's code, and its text.
func refusal(key int16, err error) *privateResponse {
	return &privateResponse{key: key, code: code(err), body: []byte(err.Error())}
}

func appendPrivateBody(dst, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...)
}

// privateBody is the bytes behind their length, which must be all there is.
func privateBody(src []byte) ([]byte, error) {
	const lengthBytes = 4
	if len(src) < lengthBytes || uint64(binary.BigEndian.Uint32(src)) != uint64(len(src)-lengthBytes) {
		return nil, fmt.Errorf("%w: its length isn't that of its bytes", errPrivateBody)
	}
	return src[lengthBytes:], nil
}

var (
	_ kmsg.Request  = (*privateRequest)(nil)
	_ kmsg.Response = (*privateResponse)(nil)
)
