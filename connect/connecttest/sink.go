package connecttest

import (
	"testing"

	"github.com/weirlog/weir/connect"
)

// The partitions that checks use: two of one topic, one of another.
func partitions() (a0, a1, b0 connect.TopicPartition) {
	return connect.TopicPartition{Topic: "suite-a", Partition: 0}, connect.TopicPartition{Topic: "suite-a", Partition: 1},
		connect.TopicPartition{Topic: "suite-b", Partition: 0}
}

func (s Suite) runSink(t *testing.T, pass transport) {
	for _, c := range []struct {
		name string
		run  func(*Driver)
		skip bool
	}{
		{"flush with nothing", checkNothing, false},
		{"everything arrives", checkEverything, false},
		{"replay overwrites", checkReplay, false},
		{"killed between any two steps", checkKills, false},
		{"revoke drops what is open", checkRevoke, false},
		{"bad record", s.checkPoison, s.NewSink(t).Poison == nil},
		{"dead target", s.checkDeadTarget, s.NewSink(t).Stop == nil},
	} {
		if c.skip {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t, s.Connector, s.NewSink(t), pass)
			d.Open()
			c.run(d)
		})
	}
}

func checkNothing(d *Driver) {
	a0, a1, _ := partitions()
	for range 2 {
		if f := d.Flush(true); len(f.Durable)+len(f.Rejected) > 0 {
			d.t.Errorf("a flush without partitions answered %v", f)
		}
		d.PutRecords(nil)
	}
	d.Assign(a0, a1)
	if f := d.Flush(true); len(f.Durable)+len(f.Rejected) > 0 {
		d.t.Errorf("a flush without records answered %v", f)
	}
	d.Revoke(a0, a1)
	d.Close()
}

func checkEverything(d *Driver) {
	a0, a1, b0 := partitions()
	d.Feed(a0, 120)
	d.Feed(a1, 3)
	d.Feed(b0, 77)
	done, watched := make(chan struct{}), make(chan struct{})
	go func() { // Stats may be called beside any other call
		defer close(watched)
		for {
			select {
			case <-done:
				return
			default:
				d.task.Stats()
			}
		}
	}()
	d.Assign(a0, a1, b0)
	for d.Put(17) > 0 {
		d.Flush(true)
	}
	d.Drain()
	close(done)
	<-watched
	if d.task.Stats().Progress == 0 {
		d.t.Error("Stats shows no progress after all was written")
	}
	d.Close()
	d.CheckContent()
}

func checkReplay(d *Driver) {
	a0, a1, b0 := partitions()
	d.Feed(a0, 40)
	d.Feed(a1, 25)
	d.Feed(b0, 31)
	for range 3 {
		d.Assign(a0, a1, b0)
		d.Drain()
		d.CheckContent()
		d.Kill()
		clear(d.Committed) // the offsets are lost: everything comes again
		d.Open()
	}
	d.Close()
}

func checkKills(d *Driver) {
	a0, a1, b0 := partitions()
	reopen := func() {
		d.Kill()
		d.Open()
		d.Assign(a0, a1, b0)
	}
	d.Assign(a0, a1, b0)
	for range 4 {
		d.Feed(a0, 23)
		d.Feed(a1, 8)
		d.Feed(b0, 15)
		d.Put(10)
		reopen() // after a put
		d.Put(10)
		d.Flush(false)
		reopen() // after a flush, before its commit
		d.Put(10)
		d.Flush(true)
		reopen() // after the commit, before the task is told
		d.Put(4)
		d.Flush(true)
		d.Flush(false)
		reopen() // after the task was told, before the next commit
	}
	d.Drain()
	d.CheckContent()
	d.Close()
}

func checkRevoke(d *Driver) {
	a0, a1, b0 := partitions()
	d.Feed(a0, 30)
	d.Feed(a1, 30)
	d.Feed(b0, 12)
	d.Assign(a0, a1)
	d.Put(11)
	d.Revoke(a1)
	d.Assign(b0) // the rest stays open
	d.Drain()
	d.Feed(a0, 5)
	d.Assign(a1)
	d.Drain()
	d.CheckContent()
	d.Close()
}

func (s Suite) checkPoison(d *Driver) {
	a0, a1, _ := partitions()
	d.Feed(a0, 9)
	key, _ := d.record(1_000_000)
	d.FeedData(a0, key, d.world.Poison())
	poison := d.Log[a0][9].Origin
	d.Feed(a0, 9)
	d.Feed(a1, 5)
	d.Assign(a0, a1)
	d.Drain()
	if len(d.Bad) != 1 || d.Bad[poison] == "" {
		d.t.Errorf("refused: %v; want only %v", d.Bad, poison)
	}
	d.CheckContent()
	d.Close()
}

func (s Suite) checkDeadTarget(d *Driver) {
	a0, a1, _ := partitions()
	d.Feed(a0, 60)
	d.Feed(a1, 20)
	d.Assign(a0, a1)
	d.Put(10)
	d.world.Stop()
	batch := d.Log[a0][d.position[a0]:]
	d.position[a0] = len(d.Log[a0])
	taken := false
	await(d.t, "a call to answer Retry", func() bool {
		var err error
		if !taken {
			records, wipe := d.handOver(batch)
			err = d.task.Put(d.t.Context(), records)
			wipe()
			taken = err == nil
		} else {
			err = d.flushOnce()
		}
		kind := connect.KindOf(d.t.Context(), err)
		if err != nil && kind != connect.KindRetry {
			d.t.Fatalf("with a dead target: kind %d: %v", kind, err)
		}
		return err != nil
	})
	d.world.Start()
	if !taken {
		d.PutRecords(batch)
	}
	d.Drain()
	d.CheckContent()
	d.Close()
}
