package core

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// inMemory is peers whose connections are pipes in memory, so that time is the test's. serve is node 1's side of each connection, when it is attached.
func inMemory(t *testing.T, serve func(nc net.Conn, br *bufio.Reader)) (p *tcpPeers, dials *[]time.Time, refuse func(bool)) {
	t.Helper()
	var mu sync.Mutex
	var serving sync.WaitGroup
	isRefusing := false
	dials = new([]time.Time)
	dial := func(context.Context, string, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		*dials = append(*dials, time.Now())
		if isRefusing {
			return nil, io.EOF
		}
		client, server := newPipe("127.0.0.1:9092")
		serving.Go(func() {
			defer server.Close()
			br := bufio.NewReader(server)
			if attachFake(server, br, peerSelf{ID: 1}) {
				serve(server, br)
			}
		})
		return client, nil
	}
	p, err := newTCPPeers(peersConfig{
		Secret: testSecret, Self: func() peerSelf { return peerSelf{ID: 2} }, AnswerBytes: 32 << 20, Dial: dial,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.close()
		serving.Wait()
	})
	p.SetNodes(map[int32]string{1: "127.0.0.1:9092"})
	return p, dials, func(yes bool) {
		mu.Lock()
		isRefusing = yes
		mu.Unlock()
	}
}

// TestRedials: a node that can't be reached is tried about once a second, and at once when it shows up.
func TestRedials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials, refuse := inMemory(t, func(nc net.Conn, br *bufio.Reader) { _ = answerPrivate(nc, br, 1<<30) })
		refuse(true)
		began := time.Now()
		for time.Since(began) < 20*time.Second {
			if got := <-callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe}); got.err == nil {
				t.Fatal("nobody answers")
			}
		}
		if n := len(*dials); n < 15 || n > 40 {
			t.Errorf("%d tries in 20 seconds", n)
		}
		for i, at := range *dials {
			if i > 0 && at.Sub((*dials)[i-1]) < firstRedial/2 || i > 8 && at.Sub((*dials)[i-1]) < longestRedial/2 {
				t.Errorf("try %d came %s after the one before", i, at.Sub((*dials)[i-1]))
			}
		}
		answer := callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe})
		refuse(false)
		at := time.Now()
		p.seen(1, "127.0.0.1:9092")
		if got := <-answer; got.err != nil || time.Since(at) > time.Millisecond {
			t.Errorf("after it has shown up it took %s: %v", time.Since(at), got.err)
		}
	})
}

// TestSlowPeers: one that goes on, however slowly, is waited for; one that stops is not.
func TestSlowPeers(t *testing.T) {
	records := make([]byte, 3<<20)
	_, _ = rand.Read(records)
	answer := kmsg.NewPtrFetchResponse()
	answer.SetVersion(18)
	topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	part.RecordBatches = records
	topic.Partitions = append(topic.Partitions, part)
	answer.Topics = append(answer.Topics, topic)
	for name, tc := range map[string]struct {
		pause  time.Duration // between chunks
		stop   int           // after so many bytes; 0: not
		within time.Duration // that the call is done
		want   error
	}{
		"slow":      {pause: time.Second, within: 15 * time.Second},
		"stops":     {stop: 1 << 20, within: 15 * time.Second, want: errPeerSilent},
		"is gone":   {stop: 1, within: 10 * time.Second, want: errPeerSilent},
		"very slow": {pause: 30 * time.Second, within: 15 * time.Second, want: errPeerSilent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, _ := inMemory(t, func(nc net.Conn, br *bufio.Reader) {
					h, err := readFrame(br)
					if err != nil {
						return
					}
					frame := appendResponse(nil, h.correlationID, answer)
					for sent := 0; sent < len(frame) && (tc.stop == 0 || sent < tc.stop); sent += 256 << 10 {
						if _, err := nc.Write(frame[sent:min(len(frame), sent+256<<10)]); err != nil {
							return
						}
						time.Sleep(tc.pause)
					}
					_, _ = io.Copy(io.Discard, br)
				})
				req := kmsg.NewPtrFetchRequest()
				req.SetVersion(18)
				req.MaxWaitMillis = 500
				began := time.Now()
				got := <-callPeer(p, 1, LaneData, req)
				if !errors.Is(got.err, tc.want) || time.Since(began) > tc.within {
					t.Errorf("after %s: %v", time.Since(began), got.err)
				}
				if tc.want == nil && string(got.resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches) != string(records) {
					t.Error("the records are others")
				}
			})
		})
	}
}

// TestSignsOfLife: a peer that answers nothing while it is told things is given up within seconds, one that answers is kept, and one that isn't told
// anything may be silent.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dials, _ := inMemory(t, func(nc net.Conn, br *bufio.Reader) { _ = answerPrivate(nc, br, 1<<30) })
		for range 300 { // half a minute of raft
			p.Call(1, LaneControl, &privateRequest{key: keyRaft, body: []byte("x")}, nil)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		if got := <-callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe}); got.err != nil {
			t.Error(got.err)
		}
		if n := len(*dials); n != 1 {
			t.Errorf("%d connections were made to a peer that lives", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 100)
		p, _, _ := inMemory(t, func(_ net.Conn, br *bufio.Reader) {
			_, _ = io.Copy(io.Discard, br)
			ended <- time.Now()
		})
		began := time.Now()
		for range 50 {
			p.Call(1, LaneControl, &privateRequest{key: keyRaft, body: []byte("x")}, nil)
			time.Sleep(100 * time.Millisecond)
		}
		if took := (<-ended).Sub(began); took > pingWait+pingEvery {
			t.Errorf("a silent peer was given up after %s", took)
		}
	})
}

// TestSlowQuestions: an answer that takes long, as that to Join may, is waited for, and those behind it too.
func TestSlowQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := inMemory(t, func(nc net.Conn, br *bufio.Reader) {
			time.Sleep(answerWait - time.Second)
			_ = answerPrivate(nc, br, 1<<30)
		})
		answers := []<-chan called{callPeer(p, 1, LaneControl, &privateRequest{key: keyJoin})}
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			answers = append(answers, callPeer(p, 1, LaneControl, &privateRequest{key: keyProbe}))
		}
		for i, a := range answers {
			if got := <-a; got.err != nil {
				t.Errorf("answer %d: %v", i, got.err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := inMemory(t, func(nc net.Conn, br *bufio.Reader) {
			for {
				time.Sleep(6 * time.Second) // for each
				if answerPrivate(nc, br, 1) != nil {
					return
				}
			}
		})
		var answers []<-chan called
		for range 4 {
			answers = append(answers, callPeer(p, 1, LaneControl, &privateRequest{key: keyJoin}))
		}
		for i, a := range answers {
			if got := <-a; got.err != nil {
				t.Errorf("answer %d of several that take long: %v", i, got.err)
			}
		}
	})
}
