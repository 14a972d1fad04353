package core

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestClientsOfEveryRelease is a client that speaks no newer versions than that release of Kafka did: admin, each way to
// produce, a group, and its offsets.
func TestClientsOfEveryRelease(t *testing.T) {
	b := start(t, testConfig(t))
	for name, versions := range map[string]*kversion.Versions{
		"0.11": kversion.V0_11_0(), "1.1": kversion.V1_1_0(), "2.0": kversion.V2_0_0(), "2.1": kversion.V2_1_0(),
		"2.3": kversion.V2_3_0(), "2.4": kversion.V2_4_0(), "2.5": kversion.V2_5_0(), "2.8": kversion.V2_8_0(),
		"3.0": kversion.V3_0_0(), "3.3": kversion.V3_3_0(), "3.7": kversion.V3_7_0(), "4.0": kversion.V4_0_0(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := "of-" + name
			adm := kadm.NewClient(client(t, b, kgo.MaxVersions(versions)))
			created, err := adm.CreateTopics(t.Context(), 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("1000000")}, topic)
			if err != nil || created.Error() != nil {
				t.Fatal(err, created.Error())
			}
			cl := client(t, b, kgo.MaxVersions(versions), kgo.DefaultProduceTopic(topic),
				kgo.ConsumeTopics(topic), kgo.ConsumerGroup("group-"+name), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			const n = 50
			for i := range n {
				if err := cl.ProduceSync(t.Context(), kgo.KeyStringRecord(fmt.Sprint(i), name)).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range consume(t, cl, n) {
				if string(r.Value) != name {
					t.Errorf("%s=%s", r.Key, r.Value)
				}
			}
			if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
				t.Fatal(err)
			}
			offsets, err := adm.FetchOffsets(t.Context(), "group-"+name)
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
			if sum != n {
				t.Errorf("committed offsets add up to %d", sum)
			}
			if ends, err := adm.ListEndOffsets(t.Context(), topic); err != nil || ends.Error() != nil {
				t.Error(err, ends.Error())
			}
			if deleted, err := adm.DeleteTopics(t.Context(), topic); err != nil || deleted.Error() != nil {
				t.Error(err, deleted.Error())
			}
		})
	}
}
