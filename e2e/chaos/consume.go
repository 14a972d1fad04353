package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	groupName   = "chaos-group"
	members     = 2
	commitLimit = 10 * time.Second
	askLimit    = 5 * time.Second

	// A coordinator that is cut off from the others, but not from clients, answers from what it has until it knows that it is none any more.
	staleLimit = 6 * time.Second
)

// consume reads everything from the beginning until ctx ends. Whatever a consumer has seen must stay.
func consume(ctx context.Context, h *history, bootstrap []string) error {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(append(append(patient(bootstrap), hasty()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond), kgo.ClientID("consumer"))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(_ string, p int32, err error) { h.judgeFetchError("consumer", p, err) })
		fetches.EachRecord(func(r *kgo.Record) { h.saw(r.Partition, r.Offset, r.Value) })
	}
	return nil
}

// judgeFetchError tells errors that say that data is lost from those that pass.
func (h *history) judgeFetchError(who string, partition int32, err error) {
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) || errors.Is(err, kerr.OffsetOutOfRange) {
		h.failf("partition %d: the %s was told that what it had read is lost: %v", partition, who, err)
	}
}

// member is one of the group: it commits what it was given, after it was given it.
func member(ctx context.Context, h *history, bootstrap []string) error {
	cl, err := kgo.NewClient(append(append(patient(bootstrap), hasty()...), kgo.ConsumeTopics(topicName), kgo.ConsumerGroup(groupName), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(500*time.Millisecond), kgo.ClientID("member"),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second))...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, 5000)
		fetches.EachError(func(_ string, p int32, err error) { h.judgeFetchError("group", p, err) })
		fetches.EachRecord(func(r *kgo.Record) { h.deliver(r.Partition, r.Offset) })
		h.commitAll(ctx, cl)
		cl.AllowRebalance()
	}
	return nil
}

// commitAll commits what a member was given; whatever the brokers acknowledge counts.
func (h *history) commitAll(ctx context.Context, cl *kgo.Client) {
	offsets := cl.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	cl.CommitOffsetsSync(limit, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return // nothing was promised
		}
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if resp.Topics[i].Partitions[j].ErrorCode == 0 {
					h.commit(req.Topics[i].Partitions[j].Partition, req.Topics[i].Partitions[j].Offset)
				}
			}
		}
	})
}

// watch asks for the group's offsets and for who leads, again and again until ctx ends.
func watch(ctx context.Context, h *history, bootstrap []string) error {
	var clients []*kgo.Client
	defer func() {
		for _, cl := range clients {
			cl.Close()
		}
	}()
	for _, addrs := range append([][]string{bootstrap}, each(bootstrap)...) {
		cl, err := kgo.NewClient(append(append(patient(addrs), hasty()...), kgo.ClientID("watcher"), kgo.RetryTimeout(askLimit))...)
		if err != nil {
			return err
		}
		clients = append(clients, cl)
	}
	for i := 0; ctx.Err() == nil; i++ {
		if i%4 == 0 {
			h.checkCommits(ctx, clients[0], staleLimit)
		} else {
			h.watchLeaders(ctx, clients[i%4])
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// each is every address alone.
func each(addrs []string) (lists [][]string) {
	for _, a := range addrs {
		lists = append(lists, []string{a})
	}
	return lists
}

// checkCommits compares the group's offsets with commits that were acknowledged for so long before they were asked for.
func (h *history) checkCommits(ctx context.Context, cl *kgo.Client, age time.Duration) (isAnswered bool) {
	before := h.committedUpTo(time.Now(), age)
	limit, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	offsets, err := kadm.NewClient(cl).FetchOffsets(limit, groupName)
	if err != nil || offsets.Error() != nil {
		return false
	}
	for p, least := range before {
		got, ok := offsets.Lookup(topicName, int32(p))
		if least > 0 && (!ok || got.At < least) {
			h.failf("partition %d: the group's offset is %d, though the commit of %d was acknowledged more than %v before", p, got.At, least, age)
		}
	}
	return true
}

// watchLeaders notes who leads what, by what one broker says.
func (h *history) watchLeaders(ctx context.Context, cl *kgo.Client) {
	limit, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	topics, err := kadm.NewClient(cl).ListTopics(limit, topicName)
	if err != nil {
		return
	}
	for _, p := range topics[topicName].Partitions {
		if p.Partition < partitions {
			h.leads(p.Partition, p.LeaderEpoch, p.Leader)
		}
	}
}
