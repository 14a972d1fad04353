package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// member is one broker of several.
type member struct {
	addr  string // HOST:PORT
	pid   func() (int, error)
	reap  func(ctx context.Context) error // after its end
	again func(ctx context.Context) error // on the same data; it need not be ready when it returns
}

// signal signals the broker's process, and says when.
func (m member) signal(sig syscall.Signal) (pid int, at time.Time, err error) {
	if pid, err = m.pid(); err != nil {
		return 0, at, err
	}
	at = time.Now()
	if err := syscall.Kill(pid, sig); err != nil {
		return 0, at, fmt.Errorf("signal broker %s: %w", m.addr, err)
	}
	return pid, at, nil
}

// awaitEnd returns when the process is gone, or a zombie without threads.
func awaitEnd(ctx context.Context, pid int) error {
	for limit := time.Now().Add(patience); time.Now().Before(limit) && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); strings.HasPrefix(rest, "Z") && len(threads) <= 1 {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("process %d has not ended in %v", pid, patience), ctx.Err())
}

// seeds are the addresses of all brokers.
func (s *server) seeds() (addrs []string) {
	for _, m := range s.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

// startBrokers starts a cluster of so many brokers and waits until they see each other.
func (b *bench) startBrokers(ctx context.Context, sd side, cores string, nodes int) (s *server, err error) {
	switch {
	case nodes == 1:
		return b.start(ctx, sd, cores)
	case sd.Kind == kindKafka:
		s, err = b.startKafka(ctx, cores, nodes, sd.Settings...)
	default:
		s, err = b.startWeirs(ctx, cores, nodes, sd.Settings...)
	}
	if err != nil {
		return nil, err
	}
	if err := s.whole(ctx, ""); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startWeirs starts nodes that form a cluster, each named to the others. What stands for all of them is the first.
func (b *bench) startWeirs(ctx context.Context, cores string, nodes int, settings ...string) (*server, error) {
	base, err := freeBase(4 * nodes)
	if err != nil {
		return nil, err
	}
	s, err := b.newServer(base)
	if err != nil {
		return nil, err
	}
	s.console = fmt.Sprintf("http://127.0.0.1:%d", base+3)
	var join []string
	for i := range nodes {
		join = append(join, fmt.Sprintf("127.0.0.1:%d", base+4*i))
	}
	var one errgroup.Group
	all := make([]*server, nodes)
	for i := range nodes {
		port := base + 4*i
		n := &server{dir: filepath.Join(s.dir, fmt.Sprint("node-", i+1)), kafka: join[i], log: &bytes.Buffer{}, console: fmt.Sprintf("http://127.0.0.1:%d", port+3)}
		args := []string{"start", "--data", filepath.Join(n.dir, "data"), "--port-base", strconv.Itoa(port), "--set", "node.log.level=WARN",
			"--join", strings.Join(join, ","), "--set", "broker.cluster.secret=of the benchmark"}
		if b.profile {
			args = append(args, "--set", "node.pprof=true")
		}
		for _, kv := range settings {
			args = append(args, "--set", kv)
		}
		all[i] = n
		again := func(ctx context.Context) error {
			return n.launch(ctx, cores, b.weir, args, func() bool { return httpOK(n.console + "/readyz") })
		}
		s.members = append(s.members, member{
			addr: n.kafka, again: again,
			pid: func() (int, error) {
				if len(n.pids) != 1 {
					return 0, fmt.Errorf("%s does not run", n.kafka)
				}
				return n.pids[0], nil
			},
			reap: func(ctx context.Context) error { return n.down(ctx, true) },
		})
		s.ends = append(s.ends, n.stop)
		one.Go(func() error { return again(ctx) })
	}
	if err := one.Wait(); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	for _, n := range all {
		s.pids = append(s.pids, n.pids...)
	}
	return s, nil
}

// kafkaMember is node i (from 1 on) of Kafka's folder.
func (b *bench) kafkaMember(cores, dir string, base, i int) member {
	node := strconv.Itoa(i)
	return member{
		addr: fmt.Sprintf("127.0.0.1:%d", base+i-1),
		pid:  func() (int, error) { return pidIn(filepath.Join(dir, "node-"+node)) },
		reap: func(context.Context) error { return nil },
		again: func(ctx context.Context) error {
			_, err := b.script(ctx, cores, []string{fmt.Sprintf("HEAP=%d", brokerHeapMiB)}, "kafka.sh", "again", dir, node)
			return err
		},
	}
}

// whole waits until every broker says that all are there and, of a topic if one is named, that all replicas are in sync.
func (s *server) whole(ctx context.Context, topic string) error {
	var admins []*kadm.Client
	defer func() {
		for _, admin := range admins {
			admin.Close()
		}
	}()
	for _, addr := range s.seeds() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryTimeout(time.Second))
		if err != nil {
			return err
		}
		admins = append(admins, kadm.NewClient(cl))
	}
	return until(ctx, "the cluster is whole", func() (bool, error) {
		for _, admin := range admins {
			if !isWhole(ctx, admin, len(admins), topic) {
				return false, ctx.Err()
			}
		}
		return true, nil
	})
}

// isWhole is what one broker says; one that doesn't answer says no.
func isWhole(ctx context.Context, admin *kadm.Client, brokers int, topic string) bool {
	var topics []string
	if topic != "" {
		topics = []string{topic}
	}
	meta, err := admin.Metadata(ctx, topics...)
	if err != nil || len(meta.Brokers) < brokers {
		return false
	}
	for _, p := range meta.Topics[topic].Partitions {
		if p.Err != nil || p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			return false
		}
	}
	return true
}

// leaders is the address of each partition's leader.
func (s *server) leaders(ctx context.Context, topic string) (map[int32]string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.seeds()...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	meta, err := kadm.NewClient(cl).Metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	led := map[int32]string{}
	for _, p := range meta.Topics[topic].Partitions {
		for _, broker := range meta.Brokers {
			if broker.NodeID == p.Leader {
				led[p.Partition] = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
			}
		}
	}
	return led, nil
}

// at is the member with an address.
func (s *server) at(addr string) (member, error) {
	i := slices.IndexFunc(s.members, func(m member) bool { return m.addr == addr })
	if i < 0 {
		return member{}, fmt.Errorf("no broker of the run has the address %q", addr)
	}
	return s.members[i], nil
}
