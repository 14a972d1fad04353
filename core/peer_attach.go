package core

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// AttachPeer, key 32000. Two requests and their answers make a connection a peer's:
//
//	hello      {"v":1,"id":2,"to":1,"lane":0,"cluster":"…","address":"HOST:PORT","start":"…","nonce":"…"}
//	challenge  {"id":1,"cluster":"…","nonce":"…"}
//	proof      client's MAC
//	answer     server's MAC
//
// A MAC is HMAC-SHA256(cluster.secret, role | length of hello, hello | length of challenge, challenge), with hello and challenge as
// they were sent: it covers both nonces, ids and cluster ids, lane and address, and what later versions add. The roles differ, so
// neither side can be made to say the other's. Who connects proves first: a stranger gets nothing to try secrets on.
//
// It proves who is at the other end when the connection begins. It hides nothing of what follows, and whoever can change bytes on their way
// can go on in a peer's place: that needs TLS.
const (
	attachVersion = 1
	nonceBytes    = 32

	roleClient = "weir peer: client\x00"
	roleServer = "weir peer: server\x00"
)

// Why a peer isn't taken.
var (
	errPeerSecret  = errors.New("cluster.secret isn't the same on both nodes")
	errNoSecret    = errors.New("this node has no cluster.secret, so it has no peers")
	errPeerCluster = errors.New("the nodes belong to different clusters")
	errPeerID      = errors.New("two nodes have the same node.id")
	errPeerOther   = errors.New("another node answers at this address")
	errAttach      = errors.New("not what attaches a peer")
)

// peerSelf is what a node says of itself to its peers.
type peerSelf struct {
	ID        int32  // 0: nobody yet
	ClusterID string // empty: none yet
	Address   string // HOST:PORT where others reach it
}

// attachHello is a client's first word.
type attachHello struct {
	V       int    `json:"v"`
	ID      int32  `json:"id"` // 0: nobody yet
	To      int32  `json:"to"` // whom the client believes to reach; 0: whoever it is
	Lane    Lane   `json:"lane"`
	Cluster string `json:"cluster"` // may be empty while there is none
	Address string `json:"address"`
	Start   string `json:"start"` // drawn at the client's start: two nodes with one id differ in it
	Nonce   []byte `json:"nonce"`
}

// attachChallenge is the server's answer to it.
type attachChallenge struct {
	ID      int32  `json:"id"`
	Cluster string `json:"cluster"`
	Nonce   []byte `json:"nonce"`
}

// checkPeer compares two nodes that have met: self, and one that says that it has the id and the cluster.
func checkPeer(self peerSelf, id int32, cluster string) error {
	switch {
	case self.ClusterID != "" && cluster != "" && self.ClusterID != cluster:
		return fmt.Errorf("%w: node %d is of %q, node %d of %q", errPeerCluster, self.ID, self.ClusterID, id, cluster)
	case self.ID != 0 && self.ID == id:
		return fmt.Errorf("%w: both are node %d", errPeerID, id)
	}
	return nil
}

// attacher is the client's side: hello, then proof, then verify. Each is called once, in this order.
type attacher struct {
	secret      []byte
	self        peerSelf
	to          int32
	hello       []byte
	challenge   []byte
	challengeID int32
}

// newAttacher makes hello. start is the client's, rand gives the nonce.
func newAttacher(secret string, self peerSelf, to int32, lane Lane, start string, rand io.Reader) (*attacher, error) {
	h := attachHello{V: attachVersion, ID: self.ID, To: to, Lane: lane, Cluster: self.ClusterID, Address: self.Address, Start: start}
	var err error
	if h.Nonce, err = newNonce(rand); err != nil {
		return nil, err
	}
	a := &attacher{secret: []byte(secret), self: self, to: to}
	a.hello, err = json.Marshal(&h)
	return a, err
}

// proof answers the server's challenge.
func (a *attacher) proof(challenge []byte) ([]byte, error) {
	var c attachChallenge
	if err := json.Unmarshal(challenge, &c); err != nil || len(c.Nonce) != nonceBytes {
		return nil, fmt.Errorf("challenge: %w", errAttach)
	}
	if err := checkPeer(a.self, c.ID, c.Cluster); err != nil {
		return nil, err
	}
	if a.to != 0 && c.ID != a.to {
		return nil, fmt.Errorf("%w: node %d instead of node %d", errPeerOther, c.ID, a.to)
	}
	a.challenge, a.challengeID = challenge, c.ID
	return attachMAC(a.secret, roleClient, a.hello, a.challenge), nil
}

// verify checks the server's proof.
func (a *attacher) verify(mac []byte) error {
	if !hmac.Equal(mac, attachMAC(a.secret, roleServer, a.hello, a.challenge)) {
		return fmt.Errorf("the node that answers proves nothing: %w", errPeerSecret)
	}
	return nil
}

// attachServer is the server's side of one connection.
type attachServer struct {
	secret    []byte
	peer      attachHello
	hello     []byte // nil before there was one
	challenge []byte
}

// begin takes hello and makes the challenge.
func (s *attachServer) begin(secret string, self peerSelf, hello []byte, rand io.Reader) ([]byte, error) {
	if secret == "" {
		return nil, errNoSecret
	}
	var h attachHello
	if err := json.Unmarshal(hello, &h); err != nil || s.hello != nil || len(h.Nonce) != nonceBytes || h.ID < 0 || h.Lane > LaneData {
		return nil, fmt.Errorf("hello: %w", errAttach)
	}
	if h.V != attachVersion {
		return nil, fmt.Errorf("hello: %w: version %d, known is %d", errAttach, h.V, attachVersion)
	}
	if err := checkPeer(self, h.ID, h.Cluster); err != nil {
		return nil, err
	}
	if h.To != 0 && h.To != self.ID {
		return nil, fmt.Errorf("%w: node %d instead of node %d", errPeerOther, self.ID, h.To)
	}
	c := attachChallenge{ID: self.ID, Cluster: self.ClusterID}
	var err error
	if c.Nonce, err = newNonce(rand); err != nil {
		return nil, err
	}
	challenge, err := json.Marshal(&c)
	if err != nil {
		return nil, err
	}
	s.secret, s.peer, s.challenge = []byte(secret), h, challenge
	s.hello = append([]byte(nil), hello...) // its frame is used again
	return challenge, nil
}

// finish checks the client's proof and makes the server's. When it returns no error, peer is who it says.
func (s *attachServer) finish(mac []byte) ([]byte, error) {
	if s.challenge == nil {
		return nil, fmt.Errorf("proof: %w", errAttach)
	}
	hello, challenge := s.hello, s.challenge
	s.challenge = nil // one try
	if !hmac.Equal(mac, attachMAC(s.secret, roleClient, hello, challenge)) {
		return nil, fmt.Errorf("node %d at %q proves nothing: %w", s.peer.ID, s.peer.Address, errPeerSecret)
	}
	return attachMAC(s.secret, roleServer, hello, challenge), nil
}

func attachMAC(secret []byte, role string, hello, challenge []byte) []byte {
	m := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(role), hello, challenge} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		_, _ = m.Write(length[:]) // a hash never fails
		_, _ = m.Write(part)
	}
	return m.Sum(nil)
}

func newNonce(rand io.Reader) ([]byte, error) {
	b := make([]byte, nonceBytes)
	if _, err := io.ReadFull(rand, b); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	return b, nil
}
