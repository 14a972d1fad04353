package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestKcatProducesAndConsumes is the first thing that a new user tries.
func TestKcatProducesAndConsumes(t *testing.T) {
	n := startNode(t, shared(t))
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		var sent strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&sent, "key-%d\tvalue %d of %s\n", i, i, codec)
		}
		topic := "kcat-" + codec
		n.kcat(sent.String(), "-P", "-t", topic, "-K", "\t", "-z", codec)
		got := n.kcat("", "-q", "-C", "-t", topic, "-o", "beginning", "-e", "-f", "%k\t%s\n")
		if got != sent.String() {
			t.Errorf("%s: consumed %d bytes, want the %d produced", codec, len(got), sent.Len())
		}
	}
}

// TestKillKeepsWhatWasAcknowledged: kcat returns when everything is acknowledged, so
// everything must be there after SIGKILL, once each, in order, however often.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	n := startNode(t, shared(t))
	var sent strings.Builder
	for round := range 5 {
		var part strings.Builder
		for i := range 500 {
			fmt.Fprintf(&part, "round %d record %d\n", round, i)
		}
		n.kcat(part.String(), "-P", "-t", "kept", "-X", "acks=all")
		sent.WriteString(part.String())
		n.kill()
		n.start()
	}
	got := n.kcat("", "-q", "-C", "-t", "kept", "-o", "beginning", "-e", "-f", "%s\n")
	if got != sent.String() {
		t.Errorf("consumed %d lines, want %d, in order", strings.Count(got, "\n"), strings.Count(sent.String(), "\n"))
	}
}

// TestGroupResumesAfterKill: a consumer group's committed offsets survive as well.
func TestGroupResumesAfterKill(t *testing.T) {
	n := startNode(t, shared(t))
	consume := func() string {
		return n.kcat("", "-q", "-G", "readers", "-X", "auto.offset.reset=earliest", "-e", "-f", "%s\n", "grouped")
	}
	n.kcat("a\nb\nc\n", "-P", "-t", "grouped")
	if got := consume(); !strings.HasPrefix(got, "a\nb\nc\n") {
		t.Fatalf("first read: %q", got)
	}
	n.kill()
	n.start()
	n.kcat("d\n", "-P", "-t", "grouped")
	if got := consume(); !strings.HasPrefix(got, "d\n") {
		t.Errorf("read after the kill: %q, want d alone", got)
	}
}

// TestHostileBytes: no bytes on the Kafka port end the broker or disturb others.
func TestHostileBytes(t *testing.T) {
	n := startNode(t, shared(t))
	frame := func(body ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	for name, bytes := range map[string][]byte{
		"huge length":      {0x7f, 0xff, 0xff, 0xff, 1, 2, 3},
		"negative length":  {0xff, 0xff, 0xff, 0xff, 1, 2, 3},
		"empty frame":      {0, 0, 0, 0},
		"one byte":         frame(0),
		"unknown key":      frame(0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff),
		"cut produce":      frame(0, 0, 0, 7, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1),
		"lying array":      frame(0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff),
		"http":             []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"tls client hello": {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
	} {
		conn, err := net.Dial("tcp", n.kafka())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write(bytes); err != nil {
			t.Errorf("%s: write: %v", name, err)
		}
		// The peer may answer or close; half of a frame keeps it waiting until we close.
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	n.kcat("alive\n", "-P", "-t", "after")
	if got := n.kcat("", "-q", "-C", "-t", "after", "-o", "beginning", "-e"); got != "alive\n" {
		t.Errorf("after hostile bytes: %q", got)
	}
}

// TestPages: the addresses that a user and a scraper look at.
func TestPages(t *testing.T) {
	n := startNode(t, shared(t))
	for path, want := range map[string]string{
		"/healthz": "",
		"/readyz":  "",
		"/metrics": "# TYPE",
		"/":        "<html",
	} {
		status, body := n.get(n.console() + path)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, want 200 with %q in it; got %.200q", path, status, want, body)
		}
	}
	n.stop(15 * time.Second)
}

// TestUnknownFlagIsRefused: a mistyped flag names itself and the nearest one.
func TestUnknownFlagIsRefused(t *testing.T) {
	s := shared(t)
	out, err := command(t, "", s.bin, "start", "--data", t.TempDir(), "--prot-base", "29999")
	if err == nil || !strings.Contains(out, "prot-base") {
		t.Errorf("start --prot-base: error %v, output %q; want an error that names the flag", err, out)
	}
}
