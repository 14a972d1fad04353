package core

import (
	"log/slog"
)

// Raft (32001): messages of the metadata's group, each behind its length. Version 0. One way: it has no answer.

func handleRaft(b *Broker, req *Request, done Done) {
	r, ok := req.Body.(*privateRequest)
	if !ok || req.Peer == 0 {
		done(hangUp{})
		return
	}
	if err := b.meta.Step(req.Peer, r.body, req.Now); err != nil {
		b.rejects.say(b.log, slog.LevelWarn, req.Now, "messages of a peer can't be understood", "node", req.Peer, "error", err)
		done(hangUp{})
		return
	}
	done(nil)
	if b.noteLeader() || !b.isClocked.Load() {
		b.news()
	}
}
