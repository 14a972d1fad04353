package core

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirlog/weir/core/meta"
	"github.com/weirlog/weir/core/replica"
	"github.com/weirlog/weir/storage"
)

// Errors that core itself detects.
var (
	errUnknownTopic   = errors.New("no such topic or partition")
	errUnknownTopicID = errors.New("no topic has this id")
	errInternalTopic  = errors.New("an internal topic is not written by clients")
	errClosing        = errors.New("the broker is closing")
	errNotRegistered  = fmt.Errorf("the node was started on a full disk and has not registered yet: %w", storage.ErrDiskFull)
	errNotMember      = errors.New("the node is not one of its cluster yet")
	errNotOpen        = errors.New("the partition's log can't be opened here yet")
	errNoMetadata     = errors.New("the metadata log is missing, and nothing will be served or dropped without it")
)

// code is the one place where an error becomes a Kafka error code.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	for _, row := range codes() {
		if errors.Is(err, row.err) {
			return row.code.Code
		}
	}
	return kerr.UnknownServerError.Code
}

type codeRow struct {
	err  error
	code *kerr.Error
}

func codes() []codeRow {
	return []codeRow{
		{errUnknownTopic, kerr.UnknownTopicOrPartition},
		{errUnknownTopicID, kerr.UnknownTopicID},
		{errInternalTopic, kerr.InvalidTopicException},
		{errNotMember, kerr.NotController},
		{errNotOpen, kerr.KafkaStorageError},
		{errClosing, kerr.NotLeaderForPartition},
		{storage.ErrCorruptBatch, kerr.CorruptMessage},
		{storage.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
		{storage.ErrProducerFenced, kerr.InvalidProducerEpoch},
		{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
		{storage.ErrTooLarge, kerr.MessageTooLarge},
		{storage.ErrNoKey, kerr.InvalidRecord},
		{storage.ErrInvalidBatch, kerr.InvalidRecord},
		{storage.ErrInvalidTimestamp, kerr.InvalidTimestamp},
		{storage.ErrStaleEpoch, kerr.FencedLeaderEpoch},
		{storage.ErrDiskFull, kerr.KafkaStorageError},
		{storage.ErrBusy, kerr.RequestTimedOut}, // retriable: there is room after the next flush
		{storage.ErrCorrupt, kerr.KafkaStorageError},
		{storage.ErrStoreClosed, kerr.NotLeaderForPartition},
		{storage.ErrStoreFailed, kerr.KafkaStorageError},
		{storage.ErrDropped, kerr.UnknownTopicOrPartition},
		{replica.ErrNotLeader, kerr.NotLeaderForPartition},
		{replica.ErrFencedEpoch, kerr.FencedLeaderEpoch},
		{replica.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
		{replica.ErrNotEnough, kerr.NotEnoughReplicas},
		{replica.ErrNotEnoughLate, kerr.NotEnoughReplicasAfterAppend},
		{replica.ErrNotReplica, kerr.ReplicaNotAvailable},
		{meta.ErrTopicExists, kerr.TopicAlreadyExists},
		{meta.ErrPartitions, kerr.InvalidPartitions},
		{meta.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
		{meta.ErrFailed, kerr.KafkaStorageError},
		{meta.ErrNoLeader, kerr.RequestTimedOut},  // retriable: it may have been made
		{meta.ErrNoReplica, kerr.RequestTimedOut}, // retriable: the brokers that were chosen have gone meanwhile
		{meta.ErrUnknownNode, kerr.BrokerIDNotRegistered},
		{meta.ErrStaleBroker, kerr.StaleBrokerEpoch},
		{meta.ErrInUse, kerr.InvalidRequest},
		{meta.ErrNodeID, kerr.DuplicateBrokerRegistration},
		{meta.ErrNotLeading, kerr.NotController},
		{errFound, kerr.InvalidRequest},
		{errForming, kerr.BrokerNotAvailable},
		{meta.ErrNoElection, kerr.ElectionNotNeeded},
		{meta.ErrUnelectable, kerr.EligibleLeadersNotAvailable},
		{meta.ErrNoAssignment, kerr.NoReassignmentInProgress},
		{errPeerSecret, kerr.SaslAuthenticationFailed},
		{errNoSecret, kerr.ClusterAuthorizationFailed},
		{errPeerCluster, kerr.InconsistentClusterID},
		{errPeerID, kerr.DuplicateBrokerRegistration},
		{errPeerOther, kerr.BrokerIDNotRegistered},
		{errAttach, kerr.InvalidRequest},
		{errPrivateBody, kerr.InvalidRequest},
		{errUnknownConfig, kerr.InvalidConfig},
		{errConfigValue, kerr.InvalidConfig},
		{meta.ErrTooLarge, kerr.PolicyViolation},
	}
}

// message is err's text for the answers that carry one.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}
