package core

import "errors"

// Why a node isn't ready.
var (
	errWaitsForLeader = errors.New("it waits for its cluster: no leader of the metadata is known, which takes a majority of the voters")
	errRegisters      = errors.New("it is registering with its cluster")
	errDiskHangs      = errors.New("the disk hangs: others take over")
	errIsLeaving      = errors.New("it is handing over to others, and ends")
)

// Ready is nil when clients are served, and a node of several may lead what it is to lead; else the reason.
func (b *Broker) Ready() error {
	if err := b.Err(); err != nil || b.peers == nil {
		return err
	}
	switch {
	case b.isLeaving():
		return errIsLeaving
	case b.isSilent.Load():
		return errDiskHangs
	case b.leader.Load() == 0:
		return errWaitsForLeader
	case !b.registered.Load() || !b.active(b.cfg.NodeID):
		return errRegisters
	}
	return nil
}
