package worker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
)

// TestGroupBytes compares with bytes worked out by hand from the format.
func TestGroupBytes(t *testing.T) {
	const url = "http://w1:8083/"
	if got, want := hex.EncodeToString(memberMetadata(url, 7)), "0002"+"000f687474703a2f2f77313a383038332f"+"0000000000000007"+"ffffffff"; got != want {
		t.Errorf("metadata\n got %s\nwant %s", got, want)
	}
	if got, want := hex.EncodeToString(leaderAssignment("m", url, 7)), "0002"+"0000"+"00016d"+"000f687474703a2f2f77313a383038332f"+
		"0000000000000007"+"00000000"+"ffffffff"+"00000000"; got != want {
		t.Errorf("assignment\n got %s\nwant %s", got, want)
	}
	eager, _ := hex.DecodeString("0000" + "000f687474703a2f2f77313a383038332f" + "0000000000000007")
	for _, b := range [][]byte{eager, memberMetadata(url, 7)} {
		if got, err := memberURL(b); got != url || err != nil {
			t.Errorf("url of %x: %q, %v", b, got, err)
		}
		for n := range b[:len(eager)] {
			if _, err := memberURL(b[:n]); err == nil {
				t.Errorf("%d bytes were taken for metadata", n)
			}
		}
	}
}

// TestSeatsExclude drives workers, one of them Java's, against the real group coordinator with crashes, freezes, lost
// and late messages, and looks at every moment whether more than one holds the group. When all is quiet and one is
// left, that one gets it. WEIR_SEEDS says how many seeds are tried.
func TestSeatsExclude(t *testing.T) {
	seeds := 60
	if n, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		seeds = n
	}
	held := 0
	for seed := range seeds {
		w := newSeatWorld(uint64(seed))
		w.run()
		if w.fault != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.fault, strings.Join(w.tail(), "\n"))
		}
		held += w.terms
	}
	if held < 5*seeds {
		t.Errorf("the group was held only %d times in %d runs: exclusion is not tested", held, seeds)
	}
}

// TestSeatsExcludeFindsMutants shows that the check above can fail.
func TestSeatsExcludeFindsMutants(t *testing.T) {
	for name, mutate := range map[string]func(*seatWorld){
		"a heartbeat counts from its answer":    func(w *seatWorld) { w.countFromAnswer = true },
		"what is held is not given up":          func(w *seatWorld) { w.neverLose = true },
		"whoever is there is taken for oneself": func(w *seatWorld) { w.evictAll, w.oneProtocol = true, true },
		"a frozen worker goes on where it was":  func(w *seatWorld) { w.trustFrozen = true },
	} {
		found := false
		for seed := uint64(0); seed < 60 && !found; seed++ {
			w := newSeatWorld(seed)
			mutate(w)
			w.run()
			found = w.fault != ""
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}

// seatWorld is a coordinator and a few workers on one clock.
type seatWorld struct {
	rng    *rand.Rand
	now    time.Time
	end    time.Time // of the troubles
	c      *coord.Coordinator
	procs  []*seatProc
	wire   []seatMessage
	asked  map[uint64]*seatCall
	lastID uint64
	log    []string
	fault  string
	terms  int

	countFromAnswer, neverLose, oneProtocol, evictAll, trustFrozen bool // mutants
}

// seatProc is one process with its seat.
type seatProc struct {
	name   string
	java   bool
	seat   *seat // nil: not running
	frozen time.Time
	call   *seatCall // out
	wakeAt time.Time
	held   bool
}

// seatCall is one request under way.
type seatCall struct {
	proc  *seatProc
	seat  *seat
	req   kmsg.Request
	sent  time.Time
	limit time.Time
}

// seatMessage is a request on its way to the coordinator, or an answer on its way back.
type seatMessage struct {
	at   time.Time
	call *seatCall
	resp kmsg.Response // nil: a request
}

const seatStep = 20 * time.Millisecond

func newSeatWorld(seed uint64) *seatWorld {
	w := &seatWorld{rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0), asked: map[uint64]*seatCall{}}
	cfg := coord.Config{}
	if seed%2 == 0 {
		cfg.InitialDelay = 3 * time.Second
	}
	w.c = coord.New(cfg)
	w.take(w.c.Loaded(w.now))
	w.end = w.now.Add(3 * time.Minute)
	w.procs = []*seatProc{{name: "a"}, {name: "b"}, {name: "java", java: true}}
	return w
}

func (w *seatWorld) run() {
	for w.now.Before(w.end) && w.fault == "" {
		w.step(true)
	}
	if w.fault != "" {
		return
	}
	for _, p := range w.procs[1:] { // these die and never come back
		p.seat, p.call = nil, nil
	}
	last := w.procs[0]
	for limit := w.now.Add(3 * time.Minute); w.now.Before(limit) && w.fault == ""; {
		if last.seat == nil {
			w.begin(last)
		}
		last.frozen = time.Time{}
		w.step(false)
		if w.holds(last) {
			return
		}
	}
	w.failf("the last worker never got the group, it is in phase %d", last.seat.phase)
}

func (w *seatWorld) failf(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (w *seatWorld) note(format string, args ...any) {
	w.log = append(w.log, w.now.Sub(time.Unix(1e9, 0)).String()+" "+fmt.Sprintf(format, args...))
}

func (w *seatWorld) tail() []string { return w.log[max(0, len(w.log)-60):] }

func (w *seatWorld) step(trouble bool) {
	w.now = w.now.Add(seatStep)
	w.take(w.c.Tick(w.now))
	for _, p := range w.procs {
		if trouble {
			w.trouble(p)
		}
	}
	w.deliver()
	w.check() // a process that wakes up asks what it holds before its seat has turned
	for _, p := range w.procs {
		w.work(p)
	}
	w.check()
}

// trouble starts, kills and freezes.
func (w *seatWorld) trouble(p *seatProc) {
	switch {
	case p.seat == nil && w.rng.IntN(400) == 0:
		w.begin(p)
	case p.seat == nil:
	case w.rng.IntN(2000) == 0:
		w.note("%s is killed", p.name)
		p.seat, p.call, p.frozen = nil, nil, time.Time{}
	case w.rng.IntN(1500) == 0:
		d := time.Duration(w.rng.IntN(15000)) * time.Millisecond
		w.note("%s freezes for %v", p.name, d)
		p.frozen = w.now.Add(d)
	}
}

func (w *seatWorld) begin(p *seatProc) {
	w.note("%s starts", p.name)
	p.seat = &seat{cfg: seatConfig{group: "g", identity: p.name, url: "http://" + p.name + "/", session: 6 * time.Second,
		heartbeat: 2 * time.Second, rebalance: time.Minute, wait: -1}}
	p.call, p.wakeAt, p.held = nil, w.now, false
}

// deliver moves messages that are due.
func (w *seatWorld) deliver() {
	var later []seatMessage
	due := w.wire
	w.wire = nil
	for _, m := range due {
		switch {
		case w.now.Before(m.at):
			later = append(later, m)
		case m.resp == nil:
			if _, ok := m.call.req.(*kmsg.DescribeGroupsRequest); ok {
				w.send(seatMessage{call: m.call, resp: w.describe(m.call.proc)})
				continue
			}
			w.lastID++
			w.asked[w.lastID] = m.call
			w.take(w.c.Handle(coord.Request{ID: w.lastID, ClientID: w.clientID(m.call.proc), ClientHost: "/h",
				Random: strconv.FormatUint(w.lastID, 10), Body: m.call.req}, w.now))
		default:
			p := m.call.proc
			if p.call != m.call || p.seat != m.call.seat {
				continue // it has given up, or is another process by now
			}
			if w.now.Before(p.frozen) {
				later = append(later, m)
				continue
			}
			w.answer(p, m.resp, nil)
		}
	}
	w.wire = append(w.wire, later...)
}

func (w *seatWorld) clientID(p *seatProc) string { return p.cfg().clientID() }

func (p *seatProc) cfg() *seatConfig { return &seatConfig{identity: p.name} }

// describe answers DescribeGroups; Java doesn't ask, so it is told of nobody.
func (w *seatWorld) describe(p *seatProc) kmsg.Response {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	g := w.c.Describe("g", 5)
	if p.java {
		g.Members = nil
	}
	for i := range g.Members {
		if w.evictAll {
			g.Members[i].ClientID = w.clientID(p)
		}
	}
	resp.Groups = append(resp.Groups, g)
	return resp
}

func (w *seatWorld) answer(p *seatProc, resp kmsg.Response, err error) {
	sent := p.call.sent
	if w.countFromAnswer {
		sent = w.now
	}
	p.call = nil
	p.seat.answered(w.now, sent, resp, err)
	p.wakeAt = w.now
	if j, ok := resp.(*kmsg.JoinGroupResponse); ok && p.java && errors.Is(kerr.ErrorForCode(j.ErrorCode), kerr.InconsistentGroupProtocol) {
		w.note("java gives up")
		p.seat = nil
	}
}

// take performs the coordinator's effects: what it appends is durable at once.
func (w *seatWorld) take(e coord.Effects) {
	for _, a := range e.Answers {
		if call := w.asked[a.ID]; call != nil {
			delete(w.asked, a.ID)
			w.send(seatMessage{call: call, resp: a.Body})
		}
	}
	for _, b := range e.Batches {
		w.take(w.c.Appended(b.ID, 0, w.now))
	}
}

// send puts a message on the wire: most arrive at once, some late, some never.
func (w *seatWorld) send(m seatMessage) {
	m.at = w.now
	if w.now.Before(w.end) {
		switch w.rng.IntN(20) {
		case 0:
			return
		case 1, 2:
			m.at = w.now.Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
		}
	}
	w.wire = append(w.wire, m)
}

// work is one turn of a process's loop.
func (w *seatWorld) work(p *seatProc) {
	if p.seat == nil || w.now.Before(p.frozen) {
		return
	}
	if p.call != nil && !w.now.Before(p.call.limit) {
		w.answer(p, nil, errors.New("gave up"))
	}
	if p.seat == nil || p.call != nil || w.now.Before(p.wakeAt) {
		return
	}
	if w.neverLose && !p.seat.heldUntil.IsZero() {
		p.seat.heldUntil = w.now.Add(time.Hour)
	}
	req, until := p.seat.next(w.now)
	if req == nil {
		p.wakeAt = until
		return
	}
	w.dress(p, req)
	p.call = &seatCall{proc: p, seat: p.seat, req: req, sent: w.now, limit: until}
	w.send(seatMessage{call: p.call})
}

// dress makes a request Java's, or a mutant's.
func (w *seatWorld) dress(p *seatProc, req kmsg.Request) {
	name := ""
	if p.java {
		name = "sessioned"
	}
	if w.oneProtocol {
		name = "weir"
	}
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		req.Version = 9
		if name != "" {
			req.Protocols[0].Name = name
		}
	case *kmsg.SyncGroupRequest:
		req.Version = 5
		if name != "" {
			req.Protocol = &name
		}
	case *kmsg.LeaveGroupRequest:
		req.Version = 5
	case *kmsg.HeartbeatRequest:
		req.Version = 4
	}
}

// holds is what a process would be told if it asked now.
func (w *seatWorld) holds(p *seatProc) bool {
	if p.seat == nil || w.now.Before(p.frozen) || p.seat.heldUntil.IsZero() {
		return false
	}
	return w.trustFrozen || !passed(w.now, p.seat.heldUntil)
}

func (w *seatWorld) check() {
	var holders []string
	for _, p := range w.procs {
		held := w.holds(p)
		if held {
			holders = append(holders, p.name)
		}
		if held != p.held {
			p.held = held
			w.note("%s holds: %v", p.name, held)
			if held {
				w.terms++
			}
		}
	}
	if len(holders) > 1 {
		w.failf("%v hold the group at once", holders)
	}
}
