package core

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeLogDirs, key 35, versions 0-5.
//
// The data folder, with the replicas of this node: all, or those of the partitions asked for. A follower's lag is what is below its
// high watermark and not in its log.
// Deviations: the write-ahead log is not in any replica's size; how large the disk is, and how much of it is free (version 4), is not told (-1).
func handleDescribeLogDirs(b *Broker, req *Request, done Done) {
	r := req.Body.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.SetVersion(req.Version)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = b.cfg.Dir
	add := func(t *topic, isAsked func(index int) bool) {
		to := kmsg.NewDescribeLogDirsResponseDirTopic()
		to.Topic = t.Name
		for i, p := range t.local() {
			if !isAsked(i) {
				continue
			}
			at := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			log := p.Log()
			at.Partition, at.Size, at.OffsetLag = p.Index, log.SizeBytes(), max(0, p.HighWatermark()-log.EndOffset())
			to.Partitions = append(to.Partitions, at)
		}
		if len(to.Partitions) > 0 {
			dir.Topics = append(dir.Topics, to)
		}
	}
	if r.Topics == nil {
		for _, t := range b.topics.all() {
			add(t, func(int) bool { return true })
		}
	}
	for i := range r.Topics {
		if t := b.topics.byName(r.Topics[i].Topic); t != nil {
			add(t, func(index int) bool { return slices.Contains(r.Topics[i].Partitions, int32(index)) })
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	done(resp)
}
