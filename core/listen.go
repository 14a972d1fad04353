package core

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// acceptPause is how long a listener waits when no connection can be accepted for the moment.
const acceptPause = 100 * time.Millisecond

// Serve accepts clients on ln until the broker is closed or ln fails, and owns ln. The first listener served becomes
// the advertised address if the configuration names none.
func (b *Broker) Serve(ln net.Listener) error {
	addr := b.cfg.Advertise
	if addr == "" {
		addr = ln.Addr().String()
	}
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		_ = ln.Close() // nothing was written to it
		return nil
	}
	if b.advertised.CompareAndSwap(nil, &addr) {
		b.news() // others may be told now
	}
	b.listeners[ln] = struct{}{}
	b.serving.Add(1)
	b.mu.Unlock()
	defer b.serving.Done()
	for {
		nc, err := ln.Accept()
		if err != nil {
			b.mu.Lock()
			closing := b.closing
			delete(b.listeners, ln)
			b.mu.Unlock()
			if closing {
				return nil
			}
			if passes(err) {
				b.log.Warn("can't accept a connection, trying again", "listener", ln.Addr().String(), "error", err)
				b.pause(acceptPause)
				continue
			}
			return errors.Join(fmt.Errorf("accept on %s: %w", ln.Addr(), err), ln.Close())
		}
		b.attach(nc)
	}
}

// passes says that an accept error is the moment's (no file descriptors left, a peer gone), not the listener's.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) ||
		errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ECONNABORTED)
}

// pause waits for d, or until the broker is closing.
func (b *Broker) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.ended:
	}
}

// attach starts a connection's two goroutines, or closes nc when there are too many or the broker is closing. Peers don't count: where there are
// any, a few more connections are taken, which must be theirs.
func (b *Broker) attach(nc net.Conn) bool {
	c := &conn{b: b, nc: nc, host: peerHost(nc), began: time.Now()}
	c.cond.L = &c.mu
	b.mu.Lock()
	clients := len(b.conns) - b.peerConns
	c.mustAttach = clients >= b.cfg.MaxConnections && b.cfg.ClusterSecret != ""
	if b.closing || clients >= b.cfg.MaxConnections && (!c.mustAttach || clients >= b.cfg.MaxConnections+attachReserve) {
		full := !b.closing
		b.mu.Unlock()
		_ = nc.Close()
		if full {
			b.stats.refused.Add(1)
			b.rejects.say(b.log, slog.LevelWarn, b.cfg.Now(), "connection refused: max.connections reached", "limit", b.cfg.MaxConnections, "peer", c.host)
		}
		return false
	}
	b.conns[c] = struct{}{}
	b.serving.Add(1)
	b.mu.Unlock()
	b.stats.accepted.Add(1)
	go c.run()
	return true
}

func peerHost(nc net.Conn) string {
	addr := nc.RemoteAddr()
	if addr == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}
