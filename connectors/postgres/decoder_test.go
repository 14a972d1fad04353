package postgres

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/weirlog/weir/connectors/debezium"
)

// feed gives the decoder messages built by hand.
type feed struct {
	t testing.TB
	d *decoder
}

func (f feed) message(lsn uint64, data []byte) {
	f.t.Helper()
	if err := f.d.message(context.Background(), &xlogData{startLSN: lsn, data: data}); err != nil {
		f.t.Fatal(err)
	}
}

func (f feed) begin(final uint64, xid uint32) {
	f.t.Helper()
	b := binary.BigEndian.AppendUint64([]byte{'B'}, final)
	f.message(final, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, 0), xid))
}

func (f feed) commit(start, end uint64) {
	f.t.Helper()
	b := binary.BigEndian.AppendUint64([]byte{'C', 0}, start)
	f.message(start, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, end), 0))
}

func (f feed) insert(lsn uint64, id string) {
	f.t.Helper()
	b := append([]byte{'I'}, binary.BigEndian.AppendUint32(nil, 0x4001)...)
	b = append(b, 'N', 0, 3, 't', 0, 0, 0, byte(len(id)))
	f.message(lsn, append(append(b, id...), 'n', 'n'))
}

func (f feed) keys() string {
	s := ""
	for _, r := range f.d.batch.Records() {
		s += r.Key.Value().String()
	}
	return s
}

func newFeed(t testing.TB, from position) feed {
	d := testDecoder(t)
	d.done = from
	if from.inside {
		d.resume = from
	}
	f := feed{t, d}
	f.message(0, goldenBytes(t)[1])
	return f
}

// TestResumeInTheRightTransaction: what was given of transaction 7 is passed over in 7 only, whatever comes before it and
// whatever the LSNs are.
func TestResumeInTheRightTransaction(t *testing.T) {
	f := newFeed(t, position{commit: 100, inside: true, xid: 7, lsn: 60, same: 2, kind: typeInsert})
	f.begin(200, 8)
	f.insert(50, "1")
	f.insert(60, "2")
	f.commit(200, 210)
	f.begin(300, 7)
	f.insert(55, "3")
	f.insert(60, "4")
	f.insert(60, "5")
	f.insert(60, "6")
	f.insert(61, "7")
	f.commit(300, 310)
	f.begin(400, 9)
	f.insert(58, "8")
	f.commit(400, 410)
	if got := f.keys(); got != "[1][2][6][7][8]" {
		t.Errorf("records %s", got)
	}
	if f.d.done.commit != 410 || f.d.done.inside {
		t.Errorf("position %+v", f.d.done)
	}
}

// TestTransactionsGivenBefore: a transaction that ends before the position is not given again.
func TestTransactionsGivenBefore(t *testing.T) {
	f := newFeed(t, position{commit: 100, kind: typeCommit})
	f.begin(90, 5)
	f.insert(80, "1")
	f.commit(90, 100)
	if got := f.keys(); got != "" || f.d.done.commit != 100 {
		t.Errorf("records %s, position %+v", got, f.d.done)
	}
	f.begin(100, 6) // begins where the last ended
	f.insert(100, "2")
	f.commit(100, 120)
	if got := f.keys(); got != "[2]" {
		t.Errorf("records %s", got)
	}
}

// TestKeepalives: outside a transaction a keepalive moves the position, inside none does, and what an earlier stream gave
// of a transaction that is still to come stays noted.
func TestKeepalives(t *testing.T) {
	f := newFeed(t, position{commit: 100, kind: typeCommit})
	f.d.alive(keepalive{endLSN: 90})
	if f.d.done.commit != 100 || len(f.d.batch.Marks()) != 0 {
		t.Errorf("an old keepalive moves the position to %+v", f.d.done)
	}
	f.d.alive(keepalive{endLSN: 150})
	if f.d.done.commit != 150 || len(f.d.batch.Marks()) != 1 || f.d.batch.Marks()[0].EndsTxn {
		t.Errorf("position %+v, marks %v", f.d.done, f.d.batch.Marks())
	}
	f.begin(300, 7)
	f.insert(200, "1")
	f.d.alive(keepalive{endLSN: 250})
	f.d.finish()
	if p := f.d.done; p.commit != 150 || !p.inside || p.lsn != 200 || p.same != 1 {
		t.Errorf("inside a transaction a keepalive makes the position %+v", p)
	}
	f = newFeed(t, f.d.done)
	f.d.alive(keepalive{endLSN: 260})
	if p := f.d.done; p.commit != 260 || !p.inside || p.xid != 7 || p.lsn != 200 {
		t.Errorf("before the transaction comes again a keepalive makes the position %+v", p)
	}
	f.begin(300, 7)
	f.insert(200, "1")
	f.insert(210, "2")
	f.commit(300, 310)
	if got := f.keys(); got != "[2]" {
		t.Errorf("records %s", got)
	}
}

// TestMarks: a mark per run of changes, one at the end of each transaction, and one at the batch's end.
func TestMarks(t *testing.T) {
	f := newFeed(t, position{commit: 100, kind: typeCommit})
	f.begin(300, 7)
	for i := range 20 {
		f.insert(uint64(200+i), "1")
	}
	f.d.finish()
	var at []int
	for _, m := range f.d.batch.Marks() {
		at = append(at, m.After)
	}
	if len(at) != 2 || at[0] != debezium.MarkEvery || at[1] != 20 {
		t.Errorf("marks after %v", at)
	}
	f.commit(300, 310)
	last := f.d.batch.Marks()[len(f.d.batch.Marks())-1]
	if len(f.d.batch.Marks()) != 2 || !last.EndsTxn || last.After != 20 || last.Offset.Get(keyLSNCommit).Int() != 310 {
		t.Errorf("the commit's mark is %+v of %d", last, len(f.d.batch.Marks()))
	}
}
