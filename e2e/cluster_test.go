package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const clusterSecret = "the secret of a test's cluster"

// clusterBin is the binary, or skips the test: a cluster needs no services.
func clusterBin(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("WEIR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: no binary named by WEIR_E2E_BIN; use `make test`")
	}
	return bin
}

// clusterNodes are fresh nodes that don't run yet, each to join all of them.
func clusterNodes(t *testing.T, count int) (nodes []*node) {
	t.Helper()
	bin := clusterBin(t)
	var list []string
	for range count {
		n := &node{t: t, bin: bin, dir: t.TempDir(), base: freePorts(t, 4)}
		list = append(list, n.kafka())
		nodes = append(nodes, n)
	}
	for i, n := range nodes {
		n.args = []string{"--join", strings.Join(list, ","), "--set", "broker.cluster.secret=" + clusterSecret}
		t.Cleanup(func() {
			n.kill()
			if t.Failed() {
				t.Logf("log of node %d:\n%s", i+1, n.log())
			}
		})
	}
	return nodes
}

// clusterStatus is what weir cluster status -o json prints, as far as it is looked at here.
type clusterStatus struct {
	Leader int32 `json:"metadata_leader"`
	Nodes  []struct {
		ID      int32  `json:"id"`
		Address string `json:"address"`
		State   string `json:"state"`
		Role    string `json:"role"`
	} `json:"nodes"`
	Partitions int               `json:"partitions"`
	Faults     []json.RawMessage `json:"faults"`
}

func (n *node) clusterStatus() (s clusterStatus, err error) {
	out, err := n.weir("cluster", "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return s, err
}

// isWhole waits until weir cluster status --check finds nothing wrong.
func (n *node) isWhole() {
	n.t.Helper()
	eventually(n.t, 60*time.Second, func() (bool, string) {
		out, err := n.weir("cluster", "status", "--check")
		return err == nil, out
	})
}

// TestThreeNodesFormACluster: three new processes form a cluster; a kill -9 loses nothing, a lost disk makes a new node, and the old one can be removed.
// What was acknowledged is judged by kcat.
func TestThreeNodesFormACluster(t *testing.T) {
	nodes := clusterNodes(t, 3)
	nodes[0].launch()
	eventually(t, 30*time.Second, func() (bool, string) {
		status, body := nodes[0].get(nodes[0].console() + "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "waits for the others"), body
	})
	if status, body := nodes[0].get(nodes[0].console() + "/healthz"); status != http.StatusOK {
		t.Errorf("healthz of a node that waits: %d %s", status, body)
	}
	if status, body := nodes[0].get(nodes[0].connect() + "/connectors"); status != http.StatusServiceUnavailable || !strings.Contains(body, "error_code") {
		t.Errorf("REST of a node that waits: %d %s", status, body)
	}
	nodes[1].launch()
	nodes[2].launch()
	for _, n := range nodes {
		n.awaitReady()
	}
	if out, err := nodes[2].weir("topic", "create", "t", "--partitions", "3", "--replication-factor", "3", "--config", "min.insync.replicas=2"); err != nil {
		t.Fatalf("create topic: %v: %s", err, out)
	}
	nodes[1].isWhole()

	values := make([]string, 900)
	for i := range values {
		values[i] = fmt.Sprintf("value-%04d", i)
	}
	produce := func(n *node, values []string) {
		n.kcat(strings.Join(values, "\n")+"\n", "-P", "-t", "t", "-X", "acks=all", "-X", "enable.idempotence=true")
	}
	produce(nodes[0], values[:300])
	nodes[0].kill()
	produce(nodes[1], values[300:600])
	nodes[0].start()
	nodes[0].isWhole()

	nodes[2].kill()
	if err := os.RemoveAll(filepath.Join(nodes[2].dir, "data")); err != nil {
		t.Fatal(err)
	}
	nodes[2].start()
	produce(nodes[2], values[600:])
	s, err := nodes[2].clusterStatus()
	if err != nil || len(s.Nodes) != 4 || s.Nodes[3].ID != 4 || s.Nodes[3].Address != nodes[2].kafka() || s.Nodes[2].State != "fenced" {
		t.Errorf("status after a lost disk: %+v, %v", s, err)
	}
	if out, err := nodes[0].weir("cluster", "remove", "4"); err == nil || !strings.Contains(out, "it is active") {
		t.Errorf("an active node was removed: %s", out)
	}
	if out, err := nodes[0].weir("cluster", "remove", "3"); err == nil || !strings.Contains(out, "--drain") || !strings.Contains(out, "3 of t") {
		t.Errorf("a node with replicas was removed: %s", out)
	}
	if out, err := nodes[0].weir("cluster", "remove", "3", "--drain"); err != nil {
		t.Fatalf("remove the lost node: %v: %s", err, out)
	}
	if out, err := nodes[0].weir("cluster", "elect"); err != nil {
		t.Errorf("elect: %v: %s", err, out)
	}
	if s, err = nodes[0].clusterStatus(); err != nil || len(s.Faults) != 0 || s.Leader < 1 {
		t.Errorf("status at the end: %+v, %v", s, err)
	}
	got := strings.Fields(nodes[1].kcat("", "-C", "-t", "t", "-e", "-q"))
	slices.Sort(got)
	if !slices.Equal(got, values) {
		t.Errorf("%d records are there, %d were acknowledged", len(got), len(values))
	}
	nodes[1].stop(15 * time.Second)
}

// TestCopiedFolders: a data folder that was copied is no second node, and one put back from a copy no longer the node that it was: both end and say so,
// and neither harms those that run.
func TestCopiedFolders(t *testing.T) {
	nodes := clusterNodes(t, 4)
	for _, n := range nodes {
		list := strings.Split(n.args[1], ",")
		n.args[1] = strings.Join(list[:3], ",")
	}
	trio, copied := nodes[:3], nodes[3]
	for _, n := range trio {
		n.launch()
	}
	for _, n := range trio {
		n.awaitReady()
	}
	lost := trio[2]
	data, old := filepath.Join(lost.dir, "data"), filepath.Join(lost.dir, "old")
	lost.stop(15 * time.Second)
	for _, to := range []string{old, filepath.Join(copied.dir, "data")} {
		if err := os.CopyFS(to, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
	}
	lost.start()
	copied.endsSaying(10*time.Second, "another node with the same id", lost.kafka())

	for i := range 5 {
		if out, err := lost.weir("topic", "create", fmt.Sprint("t", i)); err != nil {
			t.Fatalf("create topic: %v: %s", err, out)
		}
	}
	trio[0].isWhole()
	lost.stop(15 * time.Second)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, data); err != nil {
		t.Fatal(err)
	}
	lost.endsSaying(10*time.Second, "its data folder is an old copy", "joins under a new id")
	if out, err := trio[0].weir("topic", "create", "after"); err != nil {
		t.Errorf("the others don't go on: %v: %s", err, out)
	}
}

// endsSaying runs a process that is to end with an error that has these texts.
func (n *node) endsSaying(limit time.Duration, texts ...string) {
	n.t.Helper()
	n.launch()
	select {
	case err := <-n.done:
		n.cmd = nil
		log := n.log()
		said := log[strings.LastIndex(strings.TrimSuffix(log, "\n"), "\nweir:")+1:]
		for _, text := range texts {
			if !strings.Contains(said, text) {
				n.t.Errorf("it says, without %q: %s", text, said)
			}
		}
		if err == nil {
			n.t.Error("it ended without an error")
		}
	case <-time.After(limit):
		n.t.Fatalf("it runs:\n%s", n.log())
	}
}

// TestClusterRefusesToStart: what can't be a node of a cluster ends, and says how to mend it.
func TestClusterRefusesToStart(t *testing.T) {
	one := clusterNodes(t, 1)[0]
	one.args = one.args[2:]
	one.start()
	other := clusterNodes(t, 1)[0]
	other.args = other.args[2:]
	other.start()
	other.stop(10 * time.Second)

	secret := []string{"--set", "broker.cluster.secret=" + clusterSecret}
	fresh := clusterNodes(t, 1)[0]
	for _, c := range []struct {
		name string
		n    *node
		args []string
		want []string
	}{
		{"another cluster's folder", other, append([]string{"--join", one.kafka()}, secret...), []string{"of another cluster", other.dir, "--join"}},
		{"another id than the folder's", other, append([]string{"--set", "broker.node.id=7"}, secret...), []string{"node.id 7", "node 1's"}},
		{"no secret", fresh, []string{"--join", one.kafka()}, []string{"cluster.secret", "the same one on every node"}},
		{"a secret that isn't there", fresh, []string{"--join", one.kafka(), "--set", "broker.cluster.secret=${env:NO_SUCH_VARIABLE}"}, []string{"${env:NO_SUCH_VARIABLE}"}},
		{"only itself", fresh, append([]string{"--join", fresh.kafka()}, secret...), []string{"only this node", "leave --join out"}},
		{"two nodes", fresh, append([]string{"--join", fresh.kafka() + "," + one.kafka()}, secret...), []string{"can't survive the loss of either"}},
		{"an id that was used", fresh, append([]string{"--join", one.kafka(), "--set", "broker.node.id=1"}, secret...), []string{"node.id 1"}},
		{"an address for itself beside others'", fresh, append([]string{"--join", "10.1.2.3:9092"}, secret...), []string{"advertised.listeners", "10.1.2.3:9092 can't reach it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.n.args = c.args
			outer := c.n.t
			c.n.t = t
			defer func() { c.n.t = outer }()
			c.n.endsSaying(20*time.Second, c.want...)
		})
	}
}
