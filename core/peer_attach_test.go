package core

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// attachPair begins an exchange: the client's side, the server's, and its challenge.
func attachPair(t *testing.T, secret1, secret2 string, client, server peerSelf, to int32) (*attacher, *attachServer, []byte, error) {
	t.Helper()
	a, err := newAttacher(secret1, client, to, LaneData, "start", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &attachServer{}
	challenge, err := s.begin(secret2, server, a.hello, rand.Reader)
	return a, s, challenge, err
}

func TestAttach(t *testing.T) {
	node := func(id int32, cluster string) peerSelf {
		return peerSelf{ID: id, ClusterID: cluster, Address: "host:9092"}
	}
	for name, tc := range map[string]struct {
		client, server   peerSelf
		to               int32
		secret1, secret2 string
		want             error
	}{
		"two of one cluster":     {client: node(1, "c"), server: node(2, "c"), to: 2},
		"whoever answers":        {client: node(1, "c"), server: node(2, "c")},
		"both are nobody yet":    {},
		"one that joins":         {client: node(0, ""), server: node(2, "c")},
		"a member asks a new":    {client: node(2, "c"), server: node(0, "")},
		"another cluster":        {client: node(1, "c"), server: node(2, "d"), to: 2, want: errPeerCluster},
		"another, without an id": {client: node(0, "c"), server: node(2, "d"), want: errPeerCluster},
		"the same id":            {client: node(2, "c"), server: node(2, "c"), to: 2, want: errPeerID},
		"not who was meant":      {client: node(1, "c"), server: node(3, "c"), to: 2, want: errPeerOther},
		"one that was wiped":     {client: node(1, "c"), server: node(0, ""), to: 2, want: errPeerOther},
		"another secret":         {client: node(1, "c"), server: node(2, "c"), secret1: "another one's secret", want: errPeerSecret},
		"a server without one":   {client: node(1, "c"), server: node(2, "c"), secret2: "-", want: errNoSecret},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.secret1 == "" {
				tc.secret1 = testSecret
			}
			if tc.secret2 == "" {
				tc.secret2 = testSecret
			}
			if tc.secret2 == "-" {
				tc.secret2 = ""
			}
			a, s, challenge, err := attachPair(t, tc.secret1, tc.secret2, tc.client, tc.server, tc.to)
			var proof, mac []byte
			if err == nil {
				proof, err = a.proof(challenge)
			}
			if err == nil {
				mac, err = s.finish(proof)
			}
			if err == nil {
				err = a.verify(mac)
			}
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if err == nil && (s.peer.ID != tc.client.ID || s.peer.Address != tc.client.Address || s.peer.Lane != LaneData) {
				t.Errorf("the peer is %+v", s.peer)
			}
			if err != nil && refusedBy(refusal(keyAttachPeer, err)) != nil && !errors.Is(refusedBy(refusal(keyAttachPeer, err)), tc.want) {
				t.Errorf("the client can't tell %v", err)
			}
		})
	}
}

// TestAttachCheats: what was said once, or to another, proves nothing.
func TestAttachCheats(t *testing.T) {
	client, server := peerSelf{ID: 1, ClusterID: "c"}, peerSelf{ID: 2, ClusterID: "c"}
	fresh := func() (*attacher, *attachServer, []byte) {
		a, s, challenge, err := attachPair(t, testSecret, testSecret, client, server, 2)
		if err != nil {
			t.Fatal(err)
		}
		return a, s, challenge
	}
	a, s, challenge := fresh()
	proof, err := a.proof(challenge)
	if err != nil {
		t.Fatal(err)
	}
	mac, err := s.finish(proof)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("replay to a server", func(t *testing.T) {
		s := &attachServer{}
		if _, err := s.begin(testSecret, server, a.hello, rand.Reader); err != nil {
			t.Fatal(err)
		}
		if _, err := s.finish(proof); !errors.Is(err, errPeerSecret) {
			t.Errorf("the recorded proof is taken: %v", err)
		}
	})
	t.Run("replay to a client", func(t *testing.T) {
		b, _, _ := fresh()
		if _, err := b.proof(challenge); err != nil {
			t.Fatal(err)
		}
		if err := b.verify(mac); !errors.Is(err, errPeerSecret) {
			t.Errorf("the recorded answer is taken: %v", err)
		}
	})
	t.Run("reflection", func(t *testing.T) {
		b, _, challenge := fresh()
		own, err := b.proof(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.verify(own); !errors.Is(err, errPeerSecret) {
			t.Errorf("the client's own proof is taken for the server's: %v", err)
		}
		_, s, _ := fresh()
		if _, err := s.finish(attachMAC([]byte(testSecret), roleServer, s.hello, s.challenge)); !errors.Is(err, errPeerSecret) {
			t.Errorf("a server's proof is taken for a client's: %v", err)
		}
	})
	t.Run("another hello", func(t *testing.T) {
		b, _, _ := fresh()
		var h attachHello
		if err := json.Unmarshal(b.hello, &h); err != nil {
			t.Fatal(err)
		}
		h.ID = 3
		changed, err := json.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		s := &attachServer{}
		challenge, err := s.begin(testSecret, server, changed, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := b.proof(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.finish(proof); !errors.Is(err, errPeerSecret) {
			t.Errorf("node 1's proof made a connection node 3's: %v", err)
		}
	})
	t.Run("a second try", func(t *testing.T) {
		b, s, challenge := fresh()
		proof, err := b.proof(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.finish([]byte("no")); !errors.Is(err, errPeerSecret) {
			t.Fatal(err)
		}
		if _, err := s.finish(proof); !errors.Is(err, errAttach) {
			t.Errorf("after a wrong proof another is taken: %v", err)
		}
		if _, err := s.begin(testSecret, server, b.hello, rand.Reader); !errors.Is(err, errAttach) {
			t.Errorf("after a wrong proof a hello is taken: %v", err)
		}
	})
	t.Run("no hello", func(t *testing.T) {
		if _, err := new(attachServer).finish(attachMAC([]byte(testSecret), roleClient, nil, nil)); !errors.Is(err, errAttach) {
			t.Errorf("a proof without hello: %v", err)
		}
	})
}

func TestPrivateFrames(t *testing.T) {
	req := &privateRequest{key: keyJoin, body: []byte(`{"node":3}`)}
	frame := appendRequest([]byte("before"), 7, req)
	if want := kmsg.NewRequestFormatter(kmsg.FormatterClientID("weir")).AppendRequest(nil, req, 7); !bytes.Equal(frame, append([]byte("before"), want...)) {
		t.Errorf("frame %x, want %x", frame, want)
	}
	h, err := parseHeader(frame[len("before")+sizeBytes:])
	if err != nil || h.key != keyJoin || h.correlationID != 7 {
		t.Fatalf("header %+v, %v", h, err)
	}
	got := &privateRequest{key: h.key}
	if err := got.ReadFrom(h.body); err != nil || !bytes.Equal(got.body, req.body) {
		t.Errorf("body %q, %v", got.body, err)
	}
	resp := refusal(keyJoin, errPeerID)
	back, err := decodeAnswer(req, resp.AppendTo(nil))
	if r, ok := back.(*privateResponse); err != nil || !ok || r.code != kerr.DuplicateBrokerRegistration.Code || string(r.body) != errPeerID.Error() {
		t.Errorf("response %+v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, {0}, {0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff}} {
		if err := new(privateRequest).ReadFrom(bad); !errors.Is(err, errPrivateBody) {
			t.Errorf("request body %x: %v", bad, err)
		}
		if err := new(privateResponse).ReadFrom(append([]byte{0, 0}, bad...)); !errors.Is(err, errPrivateBody) {
			t.Errorf("response body %x: %v", bad, err)
		}
	}
	table := newTable(apis(), api{key: keyJoin})
	if _, _, err := table.decode(header{key: keyJoin, version: 1, body: h.body}); !errors.Is(err, errVersion) {
		t.Errorf("version 1: %v", err)
	}
	for _, row := range table.rows {
		if row.key >= firstPrivateKey {
			t.Errorf("key %d is advertised", row.key)
		}
	}
}

// TestFlexibleRequestFrame: Fetch has the header with tags.
func TestFlexibleRequestFrame(t *testing.T) {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(18)
	want := kmsg.NewRequestFormatter(kmsg.FormatterClientID("weir")).AppendRequest(nil, req, 3)
	if got := appendRequest(nil, 3, req); !bytes.Equal(got, want) {
		t.Errorf("frame %x, want %x", got, want)
	}
}

// TestAnswerBuffer: memory is used again, grows with what is needed, and shrinks when that was long ago.
func TestAnswerBuffer(t *testing.T) {
	var a answerBuffer
	large := a.get(4 << 20)
	if again := a.get(3 << 20); &again[0] != &large[0] {
		t.Error("a smaller answer has memory of its own")
	}
	for i := range 2 * manySmall {
		if b := a.get(100); len(b) != 100 {
			t.Fatalf("%d bytes instead of 100", len(b))
		}
		if isKept := cap(a.buf) >= 4<<20; isKept != (i < manySmall) {
			t.Fatalf("after %d small answers %d bytes are kept", i+1, cap(a.buf))
		}
	}
	if b := a.get(1 << 20); len(b) != 1<<20 {
		t.Errorf("%d bytes instead of a MiB", len(b))
	}
}

// FuzzAttach: whatever a stranger says, it isn't taken for a peer, and what a server says isn't taken for one that knows the secret.
func FuzzAttach(f *testing.F) {
	self := peerSelf{ID: 2, ClusterID: "c"}
	a, err := newAttacher(testSecret, peerSelf{ID: 1}, 2, LaneControl, "s", rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	s := &attachServer{}
	challenge, err := s.begin(testSecret, self, a.hello, rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.hello, challenge, make([]byte, 32))
	f.Add([]byte(`{"v":1,"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`), []byte("{}"), []byte{})
	f.Fuzz(func(t *testing.T, hello, challenge, mac []byte) {
		s := &attachServer{}
		if _, err := s.begin(testSecret, self, hello, rand.Reader); err == nil {
			if _, err := s.finish(mac); err == nil {
				t.Fatal("a stranger is taken")
			}
		}
		a, err := newAttacher(testSecret, self, 0, LaneControl, "s", rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.proof(challenge); err == nil && a.verify(mac) == nil {
			t.Fatal("a stranger is taken for a server")
		}
	})
}

// FuzzPrivateFrame: whatever comes on a peer's connection is decoded or refused.
func FuzzPrivateFrame(f *testing.F) {
	table := newTable(nil, api{key: keyRaft}, api{key: keyProbe}, api{key: keyFound}, api{key: keyJoin})
	for key := keyAttachPeer; key <= keyJoin; key++ {
		f.Add(appendRequest(nil, 1, &privateRequest{key: key, body: []byte("{}")})[sizeBytes:])
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, err := parseHeader(frame)
		if err != nil {
			return
		}
		req, _, err := table.decode(h)
		if err == nil && req.Body.Key() != h.key {
			t.Fatalf("key %d is decoded as %d", h.key, req.Body.Key())
		}
		_, _ = decodeAnswer(&privateRequest{key: keyProbe}, frame)
	})
}
