package worker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/core/coord"
)

// TestMembersShare drives workers against the real group coordinator with crashes, freezes, lost and late messages, work
// that comes and goes and tasks that are slow to stop, and looks at every moment whether anything runs at two of them. When
// all is quiet, those that are left have all the work, each piece once and in equal shares. WEIR_SEEDS says how many seeds
// are tried.
func TestMembersShare(t *testing.T) {
	seeds := 40
	if n, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		seeds = n
	}
	moves, terms := 0, 0
	for seed := range seeds {
		w := newGroupWorld(uint64(seed))
		w.run()
		if w.fault != "" {
			t.Fatalf("seed %d: %s\n%s", seed, w.fault, strings.Join(w.tail(), "\n"))
		}
		moves, terms = moves+w.moves, terms+w.terms
	}
	if moves < 20*seeds || terms < 5*seeds {
		t.Errorf("only %d pieces of work began to run and %d times a worker came in, in %d runs: sharing is not tested", moves, terms, seeds)
	}
}

// TestMembersShareFindsMutants shows that the check above can fail.
func TestMembersShareFindsMutants(t *testing.T) {
	for name, mutate := range map[string]func(*groupWorld){
		"a heartbeat counts from its answer":          func(w *groupWorld) { w.countFromAnswer = true },
		"what is held is not given up":                func(w *groupWorld) { w.neverLose = true },
		"a frozen worker goes on where it was":        func(w *groupWorld) { w.trustFrozen = true },
		"what is revoked is not waited for":           func(w *groupWorld) { w.forgetStopping = true },
		"what is revoked is given away in that round": func(w *groupWorld) { w.oneRound = true },
		"who does not join counts as a member":        func(w *groupWorld) { w.neverKicked = true },
		"a loss is not waited for":                    func(w *groupWorld) { w.keepLost = true },
	} {
		found := false
		for seed := uint64(0); seed < 150 && !found; seed++ {
			w := newGroupWorld(seed)
			mutate(w)
			w.run()
			found = w.fault != ""
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}

// TestWhatDoesNotStop: what is revoked counts as the member's until it has stopped, or until it has had the time to; then it
// may store nothing any more.
func TestWhatDoesNotStop(t *testing.T) {
	now := time.Unix(1e9, 0)
	gone, kept := TaskID{"c", 0}, TaskID{"c", 1}
	ms := newMembership(&Config{GroupID: "g", Session: time.Minute, Heartbeat: time.Second, Rebalance: time.Minute, WorkerSync: time.Second,
		ShutdownTimeout: 10 * time.Second, Protocols: groupProtocols()}, "me", func() time.Time { return now }, quiet(), func() {}, nil)
	m := &ms.member
	m.owned = workSet{gone: true, kept: true}
	m.joinRequest()
	m.take(now, now, &assignment{version: wireSessioned, revoked: []connectorWork{{"c", []int32{0}}}})
	ms.publish()
	round := m.round
	m.ran(round, workSet{gone: true, kept: true})
	m.ran(round-1, workSet{}) // of before: says nothing
	for id, want := range map[TaskID]error{gone: nil, kept: nil, {"c", 2}: errNotOwner} {
		if err := ms.mayStore(id); !errors.Is(err, want) {
			t.Errorf("%s may store: %v, want %v", id, err, want)
		}
	}
	if m.joinsAgain(now.Add(9 * time.Second)) {
		t.Error("it joins while what was revoked runs")
	}
	if !m.joinsAgain(now.Add(10*time.Second)) || len(m.stopping) > 0 || m.owned[gone] {
		t.Errorf("it does not give away what does not stop: %v %v", m.owned, m.stopping)
	}
	ms.publish()
	if ms.mayStore(gone) == nil || ms.mayStore(kept) != nil {
		t.Error("what does not stop may store, or what is kept may not")
	}
}

// groupWorld is a coordinator, a config topic and a few workers on one clock.
type groupWorld struct {
	rng    *rand.Rand
	now    time.Time
	end    time.Time // of the troubles
	c      *coord.Coordinator
	procs  []*groupProc
	wire   []groupMessage
	asked  map[uint64]*groupCalled
	lastID uint64
	log    []string
	fault  string
	moves  int
	terms  int

	configs []workSet // what the config topic says after so many records

	countFromAnswer, neverLose, trustFrozen, forgetStopping, oneRound, neverKicked, keepLost bool // mutants
}

// groupProc is one process with its membership.
type groupProc struct {
	name    string
	member  *member // nil: not running
	frozen  time.Time
	wakeAt  time.Time
	held    bool
	read    int                   // of the config topic
	running map[TaskID]*time.Time // nil: runs on; else it will have stopped then
}

// groupCalled is a call of one life of a process.
type groupCalled struct {
	proc   *groupProc
	member *member
	call   *groupCall
	lane   bool // of joins and syncs, which share a connection: they arrive in their order
}

// groupMessage is a request on its way to the coordinator, or an answer on its way back.
type groupMessage struct {
	at   time.Time
	from *groupCalled
	resp kmsg.Response // nil: a request
}

const groupStep = 20 * time.Millisecond

func newGroupWorld(seed uint64) *groupWorld {
	w := &groupWorld{rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0), asked: map[uint64]*groupCalled{}}
	cfg := coord.Config{}
	if seed%2 == 0 {
		cfg.InitialDelay = 3 * time.Second
	}
	w.c = coord.New(cfg)
	w.take(w.c.Loaded(w.now))
	w.end = w.now.Add(2 * time.Minute)
	w.procs = []*groupProc{{name: "a"}, {name: "b"}, {name: "c"}}
	w.configs = []workSet{{}}
	for range 4 {
		w.reconfigure()
	}
	return w
}

// reconfigure adds a connector, takes one away or gives one another number of tasks.
func (w *groupWorld) reconfigure() {
	work := maps.Clone(w.configs[len(w.configs)-1])
	name := string(rune('A' + w.rng.IntN(6)))
	maps.DeleteFunc(work, func(id TaskID, _ bool) bool { return id.Connector == name })
	if w.rng.IntN(4) > 0 {
		for task := connectorTask; task < w.rng.IntN(5); task++ {
			work[TaskID{name, task}] = true
		}
	}
	w.configs = append(w.configs, work)
}

func (w *groupWorld) run() {
	for w.now.Before(w.end) && w.fault == "" {
		w.step(true)
	}
	if w.fault != "" {
		return
	}
	w.kill(w.procs[2]) // it never comes back
	left := w.procs[:2]
	for limit := w.now.Add(2 * time.Minute); w.now.Before(limit) && w.fault == ""; {
		for _, p := range left {
			if p.member == nil {
				w.begin(p)
			}
			p.frozen = time.Time{}
		}
		w.step(false)
		if w.settled(left) {
			return
		}
	}
	w.failf("they never settled: %s", w.shares())
}

// settled says whether the work runs, all of it, in equal shares.
func (w *groupWorld) settled(left []*groupProc) bool {
	all, work := 0, w.configs[len(w.configs)-1]
	var tasks, connectors []int
	for _, p := range left {
		if !w.holds(p) {
			return false
		}
		n, of := 0, 0
		for id, stops := range p.running {
			if stops != nil || !work[id] {
				return false
			}
			if all++; id.Task == connectorTask {
				of++
			} else {
				n++
			}
		}
		tasks, connectors = append(tasks, n), append(connectors, of)
	}
	return all == len(work) && slices.Max(tasks)-slices.Min(tasks) <= 1 && slices.Max(connectors)-slices.Min(connectors) <= 1
}

func (w *groupWorld) shares() string {
	var b strings.Builder
	for _, p := range w.procs {
		if p.member != nil {
			fmt.Fprintf(&b, "%s in phase %d holds %v has %d runs %d; ", p.name, p.member.phase, w.holds(p), len(p.member.owned), len(p.running))
		}
	}
	return fmt.Sprintf("%sthere is %d", b.String(), len(w.configs[len(w.configs)-1]))
}

func (w *groupWorld) failf(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
	}
}

func (w *groupWorld) note(format string, args ...any) {
	w.log = append(w.log, w.now.Sub(time.Unix(1e9, 0)).String()+" "+fmt.Sprintf(format, args...))
}

func (w *groupWorld) tail() []string { return w.log[max(0, len(w.log)-60):] }

func (w *groupWorld) step(trouble bool) {
	w.now = w.now.Add(groupStep)
	w.take(w.c.Tick(w.now))
	if trouble && w.rng.IntN(500) == 0 {
		w.reconfigure()
	}
	for _, p := range w.procs {
		if trouble {
			w.trouble(p)
		}
	}
	w.deliver()
	w.check() // a process that wakes up asks what it holds before its loops have turned
	for _, p := range w.procs {
		w.work(p)
	}
	w.check()
}

// trouble starts, kills and freezes.
func (w *groupWorld) trouble(p *groupProc) {
	switch {
	case p.member == nil && w.rng.IntN(200) == 0:
		w.begin(p)
	case p.member == nil:
	case w.rng.IntN(2000) == 0:
		w.kill(p)
	case w.rng.IntN(1500) == 0:
		d := time.Duration(w.rng.IntN(15000)) * time.Millisecond
		w.note("%s freezes for %v", p.name, d)
		p.frozen = w.now.Add(d)
	case w.rng.IntN(2000) == 0 && p.member.phase != memberLeaving:
		w.note("%s leaves", p.name)
		p.running = map[TaskID]*time.Time{}
		p.member.leave()
	}
}

func (w *groupWorld) kill(p *groupProc) {
	w.note("%s is killed", p.name)
	p.member, p.frozen, p.running, p.held = nil, time.Time{}, nil, false
}

func (w *groupWorld) begin(p *groupProc) {
	w.note("%s starts", p.name)
	m := newMember(memberConfig{group: "g", identity: p.name, url: "http://" + p.name + "/", protocols: groupProtocols(), session: 6 * time.Second,
		heartbeat: 2 * time.Second, rebalance: 15 * time.Second, sync: 3 * time.Second, stop: 10 * time.Second, wait: -1}, 0)
	p.member, p.wakeAt, p.held, p.read, p.running = &m, w.now, false, 0, map[TaskID]*time.Time{}
	w.readOn(p)
	m.begin()
}

// readOn lets a process read some of the config topic.
func (w *groupWorld) readOn(p *groupProc) {
	if p.read == len(w.configs) {
		return
	}
	p.read++
	p.member.configured(int64(p.read), int64(p.read), w.configs[p.read-1])
	p.wakeAt = w.now
}

// deliver moves messages that are due.
func (w *groupWorld) deliver() {
	var later []groupMessage
	due := w.wire
	w.wire = nil
	for _, m := range due {
		switch p := m.from.proc; {
		case w.now.Before(m.at):
			later = append(later, m)
		case m.resp == nil:
			if _, ok := m.from.call.req.(*kmsg.DescribeGroupsRequest); ok {
				resp := kmsg.NewPtrDescribeGroupsResponse()
				resp.Groups = append(resp.Groups, w.c.Describe("g", 5))
				w.send(groupMessage{from: m.from, resp: resp})
				continue
			}
			w.lastID++
			w.asked[w.lastID] = m.from
			w.take(w.c.Handle(coord.Request{ID: w.lastID, ClientID: m.from.member.cfg.clientID(), ClientHost: "/h",
				Random: strconv.FormatUint(w.lastID, 10), Body: m.from.call.req}, w.now))
		case p.member != m.from.member: // another process by now
		case w.now.Before(p.frozen):
			later = append(later, m)
		default:
			w.answer(p, m.from.call, m.resp, nil)
		}
	}
	w.wire = append(w.wire, later...)
}

func (w *groupWorld) answer(p *groupProc, call *groupCall, resp kmsg.Response, err error) {
	if w.countFromAnswer {
		call.sent = w.now
	}
	round := p.member.round
	p.member.answered(w.now, call, resp, err)
	p.wakeAt = w.now
	if m := p.member; m.round != round {
		w.note("%s in phase %d of generation %d said it has %v, has %v, stops %v", p.name, m.phase, m.generation, m.reported.sorted(), m.owned.sorted(), m.stopping.sorted())
	}
}

// take performs the coordinator's effects: what it appends is durable at once.
func (w *groupWorld) take(e coord.Effects) {
	for _, a := range e.Answers {
		if from := w.asked[a.ID]; from != nil {
			delete(w.asked, a.ID)
			w.send(groupMessage{from: from, resp: a.Body})
		}
	}
	for _, b := range e.Batches {
		w.take(w.c.Appended(b.ID, 0, w.now))
	}
}

// send puts a message on the wire: most arrive at once, some late, some never.
func (w *groupWorld) send(m groupMessage) {
	m.at = w.now
	if w.now.Before(w.end) {
		switch w.rng.IntN(25) {
		case 0:
			return
		case 1, 2:
			m.at = w.now.Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
		}
	}
	for _, before := range w.wire {
		if m.resp == nil && m.from.lane && before.resp == nil && before.from.lane && before.from.member == m.from.member && before.at.After(m.at) {
			m.at = before.at
		}
	}
	w.wire = append(w.wire, m)
}

// work is one turn of a process's loops.
func (w *groupWorld) work(p *groupProc) {
	if p.member == nil || w.now.Before(p.frozen) {
		return
	}
	if w.rng.IntN(4) == 0 {
		w.readOn(p)
	}
	w.herd(p)
	m := p.member
	for _, call := range []*groupCall{m.call, m.beat} {
		if call != nil && !w.now.Before(call.until) {
			w.answer(p, call, nil, errors.New("gave up"))
		}
	}
	if w.neverLose && m.held() {
		m.heldUntil = w.now.Add(time.Hour)
	}
	if w.neverKicked {
		m.joinedAt = w.now
	}
	if w.forgetStopping {
		m.stopping = workSet{}
	}
	if w.now.Before(p.wakeAt) {
		return
	}
	send, until := m.next(w.now)
	p.wakeAt = until
	for _, call := range send {
		w.dress(call.req)
		w.send(groupMessage{from: &groupCalled{p, m, call, call == m.call}})
	}
	if m.phase == memberGone {
		w.note("%s has left", p.name)
		p.member = nil
	}
}

// herd starts and stops what the member says. What is to stop takes up to four seconds.
func (w *groupWorld) herd(p *groupProc) {
	m := p.member
	owned := m.owned
	if !w.holds(p) {
		owned = nil
	}
	for id := range owned {
		if m.current != nil && int64(p.read) < m.current.configOffset {
			break
		}
		if stops := p.running[id]; (stops != nil || !has(p.running, id)) && w.configs[p.read-1][id] {
			p.running[id] = nil
			w.moves++
			w.note("%s runs %s", p.name, id)
		}
	}
	for _, id := range workSetOf(p.running).sorted() {
		stops := p.running[id]
		switch {
		case stops != nil && !w.now.Before(*stops):
			delete(p.running, id)
			w.note("%s has stopped %s", p.name, id)
		case stops == nil && (!owned[id] || !w.configs[p.read-1][id]):
			at := w.now.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
			p.running[id] = &at
		}
	}
	if m.phase == memberDraining && (len(p.running) == 0 || w.keepLost) {
		m.drained()
		p.wakeAt = w.now
		if w.keepLost {
			m.owned = workSetOf(p.running)
			m.current = &assignment{}
		}
	}
	before := len(m.stopping)
	m.ran(m.round, workSetOf(p.running))
	if len(m.stopping) != before {
		p.wakeAt = w.now
	}
}

func has(running map[TaskID]*time.Time, id TaskID) bool {
	_, ok := running[id]
	return ok
}

func workSetOf(running map[TaskID]*time.Time) workSet {
	s := workSet{}
	for id := range running {
		s[id] = true
	}
	return s
}

// dress sets versions, and makes a mutant's request.
func (w *groupWorld) dress(req kmsg.Request) {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		req.Version = 9
	case *kmsg.SyncGroupRequest:
		req.Version = 5
		if n := len(req.GroupAssignment); w.oneRound && n > 1 {
			for i := range req.GroupAssignment {
				a, _ := decodeAssignment(req.GroupAssignment[i].MemberAssignment)
				to := &req.GroupAssignment[(i+1)%n].MemberAssignment
				b, _ := decodeAssignment(*to)
				b.assigned = append(b.assigned, a.revoked...)
				*to = b.encode()
			}
		}
	case *kmsg.LeaveGroupRequest:
		req.Version = 5
	case *kmsg.HeartbeatRequest:
		req.Version = 4
	}
}

// holds is what a process would be told if it asked now.
func (w *groupWorld) holds(p *groupProc) bool {
	if p.member == nil || w.now.Before(p.frozen) || !p.member.held() {
		return false
	}
	return w.trustFrozen || !passed(w.now, p.member.heldUntil)
}

func (w *groupWorld) check() {
	at := map[TaskID]string{}
	for _, p := range w.procs {
		held := w.holds(p)
		if held != p.held {
			p.held = held
			w.note("%s holds: %v", p.name, held)
			if held {
				w.terms++
			}
		}
		if !held {
			continue
		}
		for id := range p.running {
			if other := at[id]; other != "" {
				w.failf("%s runs at %s and at %s", id, other, p.name)
			}
			at[id] = p.name
		}
	}
}
