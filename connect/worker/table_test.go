package worker

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTableReadsPastWhatIsGone: offsets at the end of a topic may hold no records (deleted, compacted away, aborted,
// markers of transactions). A consumer is told of none of them, and the worker must start all the same.
func TestTableReadsPastWhatIsGone(t *testing.T) {
	c := newCluster(t)
	c.configTopic()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	c.config("session-key", "{}", "session-key", "{}", "session-key", "{}")
	gone := kadm.Offsets{}
	gone.AddOffset("cfg", 0, 3, -1)
	if _, err := admin(c.client()).DeleteRecords(ctx, gone); err != nil {
		t.Fatal(err)
	}
	settings := map[string]*string{"cleanup.policy": ptr("compact")}
	if _, err := admin(c.client()).CreateTopic(ctx, 3, 1, settings, "off"); err != nil {
		t.Fatal(err)
	}
	txn := c.client(kgo.TransactionalID("t"))
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		value := []byte(`{"pos":1}`)
		if commit == kgo.TryAbort {
			value = []byte(`{"pos":2}`)
		}
		if err := txn.ProduceSync(ctx, &kgo.Record{Topic: "off", Key: []byte(`["src",{"file":"x"}]`), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := txn.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	source := &memorySource{total: 3, batch: 1}
	w := c.start(source.connector())
	if n := w.stored("src"); n != 1 {
		t.Errorf("the offset is %d, want the committed one", n)
	}
	w.create("src", map[string]string{"connector.class": sourceClass})
	w.eventually("the rest", func() bool { return source.lastCommit() == 3 })
	c.read("out", 2)
}
