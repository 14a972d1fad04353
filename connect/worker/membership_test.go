package worker

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlog/weir/connect"
)

// foreignMember is a worker of another kind in the group.
type foreignMember struct {
	t          *testing.T
	client     *kgo.Client
	id         string
	generation int32
}

// joinForeign makes a member of the group that offers what an eager worker of Java's does, with which nothing can be shared.
func (c *cluster) joinForeign(group string) (*foreignMember, error) {
	c.t.Helper()
	m := &foreignMember{t: c.t, client: c.client(kgo.ClientID("connect-1"))}
	for {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.MemberID, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, m.id, groupProtocolType, 60000, 60000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "default", (&memberState{version: wireEager, url: "http://java-host:8083/"}).encode()
		join.Protocols = append(join.Protocols, p)
		resp, err := join.RequestWith(context.Background(), m.client)
		if err != nil {
			return nil, err
		}
		m.id, m.generation = resp.MemberID, resp.Generation
		if err := kerr.ErrorForCode(resp.ErrorCode); errors.Is(err, kerr.MemberIDRequired) {
			continue
		} else if err != nil {
			return nil, err
		}
		break
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	protocolType, protocol := groupProtocolType, "default"
	sync.Group, sync.MemberID, sync.Generation, sync.ProtocolType, sync.Protocol = group, m.id, m.generation, &protocolType, &protocol
	resp, err := sync.RequestWith(context.Background(), m.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return m, err
}

// leaveGroup makes a member go, whoever asks for it.
func (c *cluster) leaveGroup(group, member string) {
	c.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = group, member
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = member
	r.Members = append(r.Members, lm)
	if _, err := r.RequestWith(context.Background(), c.client()); err != nil {
		c.t.Fatal(err)
	}
}

// groupMembers gives the group's member ids and its protocol type.
func (c *cluster) groupMembers(group string) (ids []string, protocolType string) {
	c.t.Helper()
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{group}
	resp, err := r.RequestWith(context.Background(), c.client())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range resp.Groups[0].Members {
		ids = append(ids, m.MemberID)
	}
	return ids, resp.Groups[0].ProtocolType
}

// TestWorkerIsAMember: the worker is in its group while it runs and gone when it has ended; meanwhile an eager worker is
// refused by the coordinator.
func TestWorkerIsAMember(t *testing.T) {
	c := newCluster(t)
	w := c.start()
	if ids, kind := c.groupMembers("g"); len(ids) != 1 || kind != "connect" {
		t.Errorf("members %v of a group of type %q", ids, kind)
	}
	if _, err := c.joinForeign("g"); !errors.Is(err, kerr.InconsistentGroupProtocol) {
		t.Errorf("an eager worker that joins is told %v", err)
	}
	w.stop()
	if ids, _ := c.groupMembers("g"); len(ids) != 0 {
		t.Errorf("members %v are left", ids)
	}
}

// TestGroupThatCannotBeShared: beside an eager worker this one ends, in words that say who is there and what to do.
func TestGroupThatCannotBeShared(t *testing.T) {
	c := newCluster(t)
	if _, err := c.joinForeign("g"); err != nil {
		t.Fatal(err)
	}
	props := c.props()
	props["connect.group.wait.ms"] = "0"
	cfg, _, err := ParseConfig(props)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(cfg, Deps{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := w.Run(ctx); !errors.Is(err, ErrGroupTaken) || !strings.Contains(err.Error(), "http://java-host:8083/") || !strings.Contains(err.Error(), "connect.protocol") {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestLostGroupEndsConnectors: a worker whose place another has taken ends its tasks and writes its topics no more; when
// the other is gone it goes on where the tasks have stopped.
func TestLostGroupEndsConnectors(t *testing.T) {
	c := newCluster(t)
	m := &memorySource{total: 1 << 30, batch: 1}
	w := c.startWith(map[string]string{"session.timeout.ms": "10000", "heartbeat.interval.ms": "20", "connect.group.wait.ms": "-1"}, m.connector())
	w.create("src", map[string]string{"connector.class": "memory-source"})
	w.eventually("the source to commit", func() bool { return m.lastCommit() > 0 })
	ids, _ := c.groupMembers("g")
	c.leaveGroup("g", ids[0])
	other, err := c.joinForeign("g")
	for errors.Is(err, kerr.InconsistentGroupProtocol) { // the worker was faster
		ids, _ = c.groupMembers("g")
		for _, id := range ids {
			c.leaveGroup("g", id)
		}
		other, err = c.joinForeign("g")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the worker to say what it waits for", func() bool { return strings.Contains(w.Health().Message, "http://java-host:8083/") })
	opened, committed := m.opens(), m.lastCommit()
	if err := w.offsets.put(context.Background(), "src", []connect.SourceOffset{{Partition: memoryPartition, Offset: memoryPartition}}); !errors.Is(err, errNotOwner) {
		t.Errorf("an offset was written: %v", err)
	}
	if err := w.SetTarget(context.Background(), "src", TargetPaused); err == nil {
		t.Error("the config topic was written")
	}
	if m.opens() != opened || m.lastCommit() != committed {
		t.Error("the source runs on")
	}
	c.leaveGroup("g", other.id)
	w.eventually("the source to go on", func() bool { return m.opens() > opened && m.lastCommit() > committed })
	w.eventually("the task to run", func() bool { return w.taskState("src", 0) == Running })
}

// TestMemberRefusals: what trying again won't mend ends the worker, in words that say what to do.
func TestMemberRefusals(t *testing.T) {
	now := time.Unix(1e9, 0)
	join := func(code int16) kmsg.Response {
		r := kmsg.NewPtrJoinGroupResponse()
		r.ErrorCode = code
		return r
	}
	describe := func(kind string) kmsg.Response {
		r := kmsg.NewPtrDescribeGroupsResponse()
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.ProtocolType, g.Protocol = kind, "default"
		m := kmsg.NewDescribeGroupsResponseGroupMember()
		m.MemberID, m.ClientID, m.ClientHost = "x", "app", "/10.1.2.3"
		g.Members = append(g.Members, m)
		r.Groups = append(r.Groups, g)
		return r
	}
	denied := kmsg.NewPtrDescribeGroupsResponse()
	denied.Groups = append(denied.Groups, kmsg.DescribeGroupsResponseGroup{ErrorCode: kerr.GroupAuthorizationFailed.Code})
	for _, c := range []struct {
		resp kmsg.Response
		want []string
	}{
		{join(kerr.InvalidSessionTimeout.Code), []string{"session.timeout.ms=6000", "group.min.session.timeout.ms"}},
		{join(kerr.GroupAuthorizationFailed.Code), []string{"GROUP_AUTHORIZATION_FAILED", "g"}},
		{denied, []string{"GROUP_AUTHORIZATION_FAILED", "g"}},
		{describe("consumer"), []string{`type "consumer"`, "another group.id"}},
		{describe("connect"), []string{"client app from 10.1.2.3", "stop them", "group.id"}},
	} {
		s := newMember(memberConfig{group: "g", identity: "me", protocols: groupProtocols(), session: 6 * time.Second, heartbeat: 2 * time.Second, rebalance: time.Minute}, 0)
		s.begin()
		if _, ok := c.resp.(*kmsg.JoinGroupResponse); ok {
			s.phase = memberJoining
		}
		send, _ := s.next(now)
		s.answered(now, send[0], c.resp, nil)
		for _, want := range c.want {
			if s.fault == nil || !strings.Contains(s.fault.Error(), want) {
				t.Errorf("%T: %v lacks %q", c.resp, s.fault, want)
			}
		}
	}
}

// TestJavaWorkerKeys: Java's keys are taken; one without effect is told, one that would open the door or change what is
// written is refused by name, and a misspelt one is told with its nearest.
func TestJavaWorkerKeys(t *testing.T) {
	base := map[string]string{"bootstrap.servers": "x:1", "group.id": "g", "config.storage.topic": "c", "offset.storage.topic": "o",
		"status.storage.topic": "s", "key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
	parse := func(more map[string]string) (Config, []string, error) {
		props := maps.Clone(base)
		maps.Copy(props, more)
		return ParseConfig(props)
	}
	cfg, warnings, err := parse(map[string]string{"plugin.path": "/usr/share/java", "connect.protocol": "compatible", "worker.sync.timeout.ms": "1",
		"exactly.once.source.support": "disabled", "connector.client.config.override.policy": "All", "scheduled.rebalance.max.delay.ms": "0",
		"session.timeout.ms": "30000", "listeners": "HTTP://127.0.0.1:1,http://127.0.0.1:2", "producer.linger.ms": "5", "client.id": "x"})
	if err != nil || len(warnings) > 0 {
		t.Errorf("refused: %v %v", err, warnings)
	}
	if got := strings.Join(cfg.Notes, "\n"); !strings.Contains(got, "plugin.path") || !strings.Contains(got, "only the first is used") {
		t.Errorf("notes %q", got)
	}
	if cfg.Session != 30*time.Second || cfg.Heartbeat != 2*time.Second || cfg.Listener != "127.0.0.1:1" {
		t.Errorf("read %+v", cfg)
	}
	if cfg, _, _ := parse(map[string]string{"session.timeout.ms": "900"}); cfg.Heartbeat != 300*time.Millisecond {
		t.Errorf("heartbeat %v of a session of 900 ms", cfg.Heartbeat)
	}
	for key, value := range map[string]string{"exactly.once.source.support": "enabled", "rest.extension.classes": "a.B", "admin.listeners": "http://:1",
		"connector.client.config.override.policy": "com.example.Mine", "listeners": "https://127.0.0.1:1", "connect.protocol": "eager"} {
		if _, _, err := parse(map[string]string{key: value}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	_, warnings, err = parse(map[string]string{"heartbeat.intervall.ms": "1", "rest.advertized.port": "1"})
	if got := strings.Join(warnings, "\n"); err != nil || !strings.Contains(got, "did you mean heartbeat.interval.ms?") || !strings.Contains(got, "did you mean rest.advertised.port?") {
		t.Errorf("misspelt keys: %q, %v", got, err)
	}
	if _, _, err := parse(map[string]string{"heartbeat.intervall.ms": "1", "config.unknown": "error"}); err == nil {
		t.Error("config.unknown=error takes an unknown key")
	}
}

// TestOverridePolicy: what connectors may set is what the worker's policy says, in validation and when they run.
func TestOverridePolicy(t *testing.T) {
	const java = "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy"
	for _, c := range []struct{ policy, allow, key, refused string }{
		{"", "", "linger.ms", ""}, {"All", "", "linger.ms", ""}, {"None", "", "linger.ms", "None"}, {java, "", "sasl.mechanism", "None"},
		{"principal", "", "sasl.mechanism", ""}, {"Principal", "", "linger.ms", "Principal"},
		{"Allowlist", "batch.size, linger.ms", "linger.ms", ""}, {"Allowlist", "batch.size", "linger.ms", "Allowlist"},
	} {
		p, err := parseOverridePolicy(map[string]string{"connector.client.config.override.policy": c.policy, "connector.client.config.override.allowlist": c.allow})
		if err != nil {
			t.Errorf("%s: %v", c.policy, err)
		}
		if err := p.check("producer.override.", c.key); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s %s: %v", c.policy, c.key, err)
		}
	}
	c := newCluster(t)
	w := c.startWith(map[string]string{"connector.client.config.override.policy": "None"}, (&memorySource{total: 1, batch: 1}).connector())
	_, err := w.Create(context.Background(), "src", map[string]string{"connector.class": "memory-source", "producer.override.linger.ms": "1"}, "")
	if err == nil || !strings.Contains(err.Error(), "producer.override.linger.ms") {
		t.Errorf("a connector that overrides was made: %v", err)
	}
}
