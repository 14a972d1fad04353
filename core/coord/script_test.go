package coord

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts answer into testdata")

// TestScripts runs testdata/*.txt: lines without indentation are steps, the indented lines
// below one are its effects. "go test -run TestScripts -rewrite" writes the effects anew;
// read the difference before you commit it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	s := newScript()
	lines := bufio.NewScanner(strings.NewReader(string(want)))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "\t") {
			continue
		}
		got.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		for _, effect := range s.step(t, line) {
			got.WriteString("\t" + effect + "\n")
		}
	}
	if got.String() == string(want) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs; got:\n%s", file, firstDifference(got.String(), string(want)))
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			old := ""
			if i < len(w) {
				old = w[i]
			}
			return fmt.Sprintf("line %d\n got: %s\nwant: %s\nwhole:\n%s", i+1, g[i], old, got)
		}
	}
	return got
}

// script is one run: a coordinator, its log, and the clock.
type script struct {
	c       *Coordinator
	cfg     Config
	start   time.Time
	now     time.Time
	next    uint64
	names   map[uint64]string // request id -> what it was
	batches map[uint64][]Record
	log     []Record
}

func newScript() *script {
	start := time.UnixMilli(1_000_000)
	return &script{start: start, now: start, names: make(map[uint64]string), batches: make(map[uint64][]Record)}
}

// args are the key=value words of a step.
type args map[string]string

func (a args) int(key string, unset int64) int64 {
	if a[key] == "" {
		return unset
	}
	n, err := strconv.ParseInt(a[key], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: %v", key, a[key], err))
	}
	return n
}

func (a args) millis(key string, unset time.Duration) int32 {
	d := unset
	if a[key] != "" {
		var err error
		if d, err = time.ParseDuration(a[key]); err != nil {
			panic(err)
		}
	}
	return int32(d.Milliseconds())
}

func (a args) ptr(key string) *string {
	if v, ok := a[key]; ok {
		return &v
	}
	return nil
}

func (a args) pairs(key string) [][2]string {
	var out [][2]string
	for _, p := range strings.Split(a[key], ",") {
		if p != "" {
			k, v, _ := strings.Cut(p, ":")
			out = append(out, [2]string{k, v})
		}
	}
	return out
}

func (s *script) step(t *testing.T, line string) []string {
	words := strings.Fields(line)
	a := make(args)
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			v = ""
			a[""] = w
		}
		a[k] = v
	}
	switch words[0] {
	case "config":
		s.cfg.InitialDelay = time.Duration(a.millis("initial", 0)) * time.Millisecond
		s.cfg.MaxSize = int(a.int("size", 0))
		s.cfg.OffsetRetention = time.Duration(a.millis("retention", 0)) * time.Millisecond
		s.cfg.RetentionCheck = time.Duration(a.millis("check", time.Hour)) * time.Millisecond
		if keep, ok := a["keep"]; ok {
			s.cfg.Keep = func(g string) bool { return g == keep }
		}
		return nil
	case "loading":
		s.c = New(s.cfg)
		return nil
	case "load":
		s.c = New(s.cfg)
		for _, r := range s.log {
			if err := s.c.Replay(r.Key, r.Value); err != nil {
				t.Fatal(err)
			}
		}
		s.batches = make(map[uint64][]Record)
		return s.show(s.c.Loaded(s.now))
	case "tick":
		return s.tick(a)
	case "durable":
		return s.durable(a)
	case "fail":
		id := uint64(a.int("batch", 0))
		delete(s.batches, id)
		return s.show(s.c.Appended(id, kerrCode(a["code"]), s.now))
	case "close":
		return s.show(s.c.Close(kerrCode(a["code"])))
	}
	return s.request(t, words[0], a)
}

func (s *script) tick(a args) []string {
	end := s.now.Add(time.Duration(a.millis("by", 0)) * time.Millisecond)
	var out []string
	for {
		next := s.c.timers.next()
		if next.IsZero() || next.After(end) {
			break
		}
		s.now = next
		eff := s.c.Tick(s.now)
		if shown := s.show(eff); len(shown) > 0 {
			out = append(out, "at "+s.now.Sub(s.start).String())
			out = append(out, shown...)
		}
	}
	s.now = end
	return out
}

func (s *script) durable(a args) []string {
	var ids []uint64
	for id := range s.batches {
		if a["batch"] == "" || id == uint64(a.int("batch", 0)) {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	var out []string
	for _, id := range ids {
		s.log = append(s.log, s.batches[id]...)
		delete(s.batches, id)
		out = append(out, s.show(s.c.Appended(id, 0, s.now))...)
	}
	return out
}

func (s *script) request(t *testing.T, verb string, a args) []string {
	group := a["g"]
	if group == "" && a.ptr("g") == nil {
		group = "g"
	}
	switch verb {
	case "offsets":
		all, code := s.c.Offsets(group)
		out := []string{}
		if code != 0 {
			out = append(out, errName(code))
		}
		for _, o := range all {
			out = append(out, fmt.Sprintf("%s-%d next=%d epoch=%d metadata=%q", o.Topic, o.Partition, o.Next, o.LeaderEpoch, o.Metadata))
		}
		return out
	case "describe":
		return showDescribed(s.c.Describe(group, int16(a.int("v", 5))))
	case "list":
		split := func(key string) []string {
			if a[key] == "" {
				return nil
			}
			return strings.Split(a[key], ",")
		}
		groups, code := s.c.List(split("states"), split("types"))
		out := []string{errName(code)}
		for _, g := range groups {
			out = append(out, fmt.Sprintf("%s type=%s protocol=%s state=%s", g.Group, g.GroupType, g.ProtocolType, g.GroupState))
		}
		return out
	case "delete":
		s.next++
		s.names[s.next] = verb
		return s.show(s.c.Delete(s.next, group, s.now))
	case "topic-deleted":
		return s.show(s.c.TopicDeleted(a["t"], s.now))
	}
	body := requestBody(t, verb, group, a)
	s.next++
	s.names[s.next] = verb
	client := a["c"]
	if client == "" {
		client = "c"
	}
	return s.show(s.c.Handle(Request{ID: s.next, ClientID: client, ClientHost: "/127.0.0.1", Random: fmt.Sprint("r", s.next), Body: body}, s.now))
}

func requestBody(t *testing.T, verb, group string, a args) kmsg.Request {
	switch verb {
	case "join":
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID = int16(a.int("v", 5)), group, a["m"], a.ptr("i")
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = a.millis("session", 10*time.Second), a.millis("rebalance", 60*time.Second)
		r.ProtocolType = "consumer"
		if p := a.ptr("type"); p != nil {
			r.ProtocolType = *p
		}
		if a.ptr("p") == nil {
			a["p"] = "range:x"
		}
		for _, p := range a.pairs("p") {
			rp := kmsg.NewJoinGroupRequestProtocol()
			rp.Name, rp.Metadata = p[0], []byte(p[1])
			r.Protocols = append(r.Protocols, rp)
		}
		return r
	case "sync":
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = int16(a.int("v", 5)), group, a["m"], a.ptr("i"), int32(a.int("gen", 1))
		r.Protocol, r.ProtocolType = a.ptr("p"), a.ptr("type")
		for _, p := range a.pairs("assign") {
			ra := kmsg.NewSyncGroupRequestGroupAssignment()
			ra.MemberID, ra.MemberAssignment = p[0], []byte(p[1])
			r.GroupAssignment = append(r.GroupAssignment, ra)
		}
		return r
	case "heartbeat":
		r := kmsg.NewPtrHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = 4, group, a["m"], a.ptr("i"), int32(a.int("gen", 1))
		return r
	case "leave":
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group, r.MemberID = int16(a.int("v", 4)), group, a["m"]
		for _, m := range a.pairs("members") {
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID = m[0]
			if m[1] != "" {
				rm.InstanceID = &m[1]
			}
			r.Members = append(r.Members, rm)
		}
		return r
	case "commit":
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.MemberID, r.InstanceID, r.Generation = int16(a.int("v", 8)), group, a["m"], a.ptr("i"), int32(a.int("gen", -1))
		r.RetentionTimeMillis = a.int("retention", -1)
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = "t"
		for _, p := range a.pairs("at") {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			n, _ := strconv.Atoi(p[0])
			next, metadata, _ := strings.Cut(p[1], "/")
			rp.Partition, rp.LeaderEpoch = int32(n), 3
			rp.Offset, _ = strconv.ParseInt(next, 10, 64)
			rp.Metadata = &metadata
			topic.Partitions = append(topic.Partitions, rp)
		}
		r.Topics = append(r.Topics, topic)
		return r
	case "offset-delete":
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		topic := kmsg.NewOffsetDeleteRequestTopic()
		topic.Topic = "t"
		for _, p := range a.pairs("at") {
			n, _ := strconv.Atoi(p[0])
			topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: int32(n)})
		}
		r.Topics = append(r.Topics, topic)
		return r
	}
	t.Fatalf("unknown step %q", verb)
	return nil
}

func (s *script) show(eff Effects) []string {
	out := []string{}
	for _, a := range eff.Answers {
		out = append(out, fmt.Sprintf("answer %s#%d %s", s.names[a.ID], a.ID, showAnswer(a.Body)))
	}
	for _, b := range eff.Batches {
		s.batches[b.ID] = b.Records
		for _, r := range b.Records {
			out = append(out, fmt.Sprintf("append #%d %s", b.ID, showRecord(r)))
		}
	}
	return out
}

func showAnswer(body kmsg.Response) string {
	switch r := body.(type) {
	case *kmsg.JoinGroupResponse:
		if r.ErrorCode != 0 {
			return fmt.Sprintf("%s member=%s", errName(r.ErrorCode), r.MemberID)
		}
		var members []string
		for _, m := range r.Members {
			members = append(members, fmt.Sprintf("%s:%s", m.MemberID, m.ProtocolMetadata))
		}
		return fmt.Sprintf("OK gen=%d type=%s protocol=%s leader=%s member=%s skip=%t members=[%s]",
			r.Generation, text(r.ProtocolType), text(r.Protocol), r.LeaderID, r.MemberID, r.SkipAssignment, strings.Join(members, " "))
	case *kmsg.SyncGroupResponse:
		return fmt.Sprintf("%s assignment=%s protocol=%s", errName(r.ErrorCode), r.MemberAssignment, text(r.Protocol))
	case *kmsg.HeartbeatResponse:
		return errName(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		out := errName(r.ErrorCode)
		for _, m := range r.Members {
			out += fmt.Sprintf(" %s/%s:%s", m.MemberID, text(m.InstanceID), errName(m.ErrorCode))
		}
		return out
	case *kmsg.OffsetCommitResponse:
		var out []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out = append(out, fmt.Sprintf("%s-%d:%s", t.Topic, p.Partition, errName(p.ErrorCode)))
			}
		}
		return strings.Join(out, " ")
	case *kmsg.OffsetDeleteResponse:
		out := errName(r.ErrorCode)
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out += fmt.Sprintf(" %s-%d:%s", t.Topic, p.Partition, errName(p.ErrorCode))
			}
		}
		return out
	case *kmsg.DeleteGroupsResponse:
		return errName(r.Groups[0].ErrorCode)
	}
	return fmt.Sprintf("%T", body)
}

func showRecord(r Record) string {
	if r.Key[1] <= 1 {
		var k kmsg.OffsetCommitKey
		v := kmsg.NewOffsetCommitValue()
		if err := k.ReadFrom(r.Key); err != nil {
			return err.Error()
		}
		if r.Value == nil {
			return fmt.Sprintf("offset %s %s-%d tombstone", k.Group, k.Topic, k.Partition)
		}
		if err := v.ReadFrom(r.Value); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("offset %s %s-%d v%d next=%d epoch=%d metadata=%q at=%d expires=%d",
			k.Group, k.Topic, k.Partition, v.Version, v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp, v.ExpireTimestamp)
	}
	var k kmsg.GroupMetadataKey
	v := kmsg.NewGroupMetadataValue()
	if err := k.ReadFrom(r.Key); err != nil {
		return err.Error()
	}
	if r.Value == nil {
		return fmt.Sprintf("group %s tombstone", k.Group)
	}
	if err := v.ReadFrom(r.Value); err != nil {
		return err.Error()
	}
	var members []string
	for _, m := range v.Members {
		members = append(members, fmt.Sprintf("%s/%s:%s=%s", m.MemberID, text(m.InstanceID), m.Subscription, m.Assignment))
	}
	return fmt.Sprintf("group %s v%d gen=%d type=%s protocol=%s leader=%s members=[%s]",
		k.Group, v.Version, v.Generation, v.ProtocolType, text(v.Protocol), text(v.Leader), strings.Join(members, " "))
}

func showDescribed(g kmsg.DescribeGroupsResponseGroup) []string {
	out := []string{fmt.Sprintf("%s state=%s type=%s protocol=%s", errName(g.ErrorCode), g.State, g.ProtocolType, g.Protocol)}
	for _, m := range g.Members {
		out = append(out, fmt.Sprintf("%s/%s client=%s host=%s metadata=%s assignment=%s",
			m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment))
	}
	return out
}

func text(p *string) string {
	if p == nil {
		return "-"
	}
	return *p
}

func errName(code int16) string {
	if code == 0 {
		return "OK"
	}
	return kerr.TypedErrorForCode(code).Message
}

func kerrCode(name string) int16 {
	for code := int16(-1); code < 140; code++ {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Message == name {
			return code
		}
	}
	panic("no error is called " + name)
}
