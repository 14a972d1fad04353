package core

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request is one decoded request. It is the handler's to read until Done has been called.
//
// Body was decoded from Frame without copying byte fields: a handler that keeps a []byte of a Produce request after
// Handle returned must copy it (storage does). Frames of all other keys are left to the garbage collector, so their
// byte fields may be kept.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	ClientHost    string // the peer's address without its port, as DescribeGroups shows it
	Software      string // "name/version" as the client gave it in ApiVersions, else empty
	Body          kmsg.Request
	Now           time.Time
	Peer          int32 // the node that sent it and has proved to be one of the cluster; 0: a client

	// mayWait asks, before the handler keeps the request waiting for others' doings, whether it may hold memory meanwhile; cancel
	// answers it, and may be called at any time from then on. nil: it may.
	mayWait func(cancel func()) bool
}

// Done takes a request's answer. It is called exactly once for every request, from any goroutine, and doesn't block.
// nil means that the request has no answer (Produce with acks=0); hangUp ends the connection instead of answering.
// The answer belongs to whoever receives it, who encodes it by its AppendTo exactly once, which may block on the disk
// (fetch answers read their records there).
type Done func(kmsg.Response)

// hangUp as an answer closes the connection: the only way to report the failure of a request that has no answer.
type hangUp struct{ kmsg.Response }

// handler serves one API key. It doesn't block; it keeps nothing of req past done.
type handler func(b *Broker, req *Request, done Done)

// api is one row of the dispatch table: the versions advertised and the function that serves them.
type api struct {
	key, min, max int16
	// oldest is the lowest version served. It is above min only for Produce, whose versions 0-2 are advertised so
	// that old librdkafka enables compression, and refused.
	oldest int16
	handle handler
}

// apis is the dispatch table. What is in it is advertised; what is not in it ends the connection.
// The group keys (8-16, 42) are listed by groupAPIs in groups.go, those of the cluster by clusterAPIs in nodes.go.
func apis() []api {
	table := []api{
		{key: 0, min: 0, max: 13, oldest: 3, handle: handleProduce},
		{key: 1, min: 4, max: 18, oldest: 4, handle: handleFetch},
		{key: 2, min: 1, max: 11, oldest: 1, handle: handleListOffsets},
		{key: 3, min: 0, max: 13, oldest: 0, handle: handleMetadata},
		{key: 18, min: 0, max: 5, oldest: 0, handle: handleAPIVersions},
		{key: 19, min: 2, max: 7, oldest: 2, handle: handleCreateTopics},
		{key: 20, min: 1, max: 6, oldest: 1, handle: handleDeleteTopics},
		{key: 21, min: 0, max: 2, oldest: 0, handle: handleDeleteRecords},
		{key: 22, min: 0, max: 5, oldest: 0, handle: handleInitProducerID},
		{key: 23, min: 2, max: 4, oldest: 2, handle: handleOffsetForLeaderEpoch},
		{key: 32, min: 1, max: 4, oldest: 1, handle: handleDescribeConfigs},
		{key: 33, min: 0, max: 2, oldest: 0, handle: handleAlterConfigs},
		{key: 37, min: 0, max: 3, oldest: 0, handle: handleCreatePartitions},
		{key: 44, min: 0, max: 1, oldest: 0, handle: handleIncrementalAlterConfigs},
	}
	return slices.Concat(table, groupAPIs(), clusterAPIs())
}

// peerAPIs are the private keys, which only an attached peer may ask for. AttachPeer is the connection's own (peer_serve.go).
func peerAPIs() []api {
	return []api{
		{key: keyRaft, handle: handleRaft},
		{key: keyProbe, handle: handleProbe},
		{key: keyFound, handle: handleFound},
		{key: keyJoin, handle: handleJoin},
	}
}
