package replica

import "errors"

// Errors of a partition that is not as its caller believed.
var (
	ErrNotLeader     = errors.New("this node doesn't lead the partition")
	ErrFencedEpoch   = errors.New("leader epoch is older than the partition's")
	ErrUnknownEpoch  = errors.New("leader epoch is newer than the partition's")
	ErrNotEnough     = errors.New("fewer replicas are in sync than min.insync.replicas")
	ErrNotEnoughLate = errors.New("fewer replicas were in sync than min.insync.replicas when the batch was on all of them")
	ErrNotReplica    = errors.New("the node is not a replica of the partition")
)

// Assignment is what the metadata says about a partition. Its slices are immutable.
type Assignment struct {
	Leader         int32 // -1: nobody
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
}

// ISRWish is an in-sync set that a leader wants instead of the one it has, in the epochs of that one.
type ISRWish struct {
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
	Generations    []int64 // of the brokers in ISR, as they fetched
}
