package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNotRun marks a peer that can't be had or started: reported, never counted.
var errNotRun = errors.New("not run")

// Heaps as Kafka's own start scripts give them.
const (
	brokerHeapMiB  = 1024
	connectJavaEnv = "_JAVA_OPTIONS=-Xms256m -Xmx2g"
)

const (
	scriptLines = 4               // of a script's complaints that are kept
	scriptLeave = 5 * time.Second // a server that it left running may hold the pipes
)

// server is what a side runs on: one process or several, in a folder of its own.
type server struct {
	dir     string
	kafka   string // HOST:PORT
	connect string // http://HOST:PORT of a worker, empty without one
	console string // http://HOST:PORT, weir only
	pids    []int
	began   time.Time     // of its first process
	ready   time.Duration // from then to its first answer
	ends    []func() error
	log     *bytes.Buffer
	members []member // of several brokers

	// down ends every process of the broker, by SIGKILL or as it wishes; again starts it anew on the same data.
	down  func(ctx context.Context, kill bool) error
	again func(ctx context.Context) error
}

func (s *server) usage() usage { return usageOf(s.pids...) }

// stop ends the processes, last started first, and removes their data.
func (s *server) stop() error {
	var faults []error
	for i := len(s.ends) - 1; i >= 0; i-- {
		faults = append(faults, s.ends[i]())
	}
	return errors.Join(append(faults, os.RemoveAll(s.dir))...)
}

// freeBase finds n ports in a row that nobody listens on.
func freeBase(n int) (int, error) {
	for base := 23000; base < 30000; base += n {
		free := true
		for i := range n {
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
			if err != nil {
				free = false
				break
			}
			ln.Close()
		}
		if free {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row", n)
}

// start starts the server of a side. cores is a list for taskset.
func (b *bench) start(ctx context.Context, sd side, cores string) (*server, error) {
	switch sd.Kind {
	case kindWeir:
		return b.startWeir(ctx, cores, sd.Settings...)
	case kindKafka:
		return b.startKafka(ctx, cores, 1, sd.Settings...)
	case kindKfake:
		return b.startKfake(ctx, cores)
	}
	return nil, fmt.Errorf("unknown kind of server %q", sd.Kind)
}

// startWeir starts a node and waits until it is ready. Settings are KEY=VALUE of weir.yaml.
func (b *bench) startWeir(ctx context.Context, cores string, settings ...string) (*server, error) {
	base, err := freeBase(4)
	if err != nil {
		return nil, err
	}
	s, err := b.newServer(base)
	if err != nil {
		return nil, err
	}
	s.connect, s.console = fmt.Sprintf("http://127.0.0.1:%d", base+1), fmt.Sprintf("http://127.0.0.1:%d", base+3)
	args := []string{"start", "--data", filepath.Join(s.dir, "data"), "--port-base", strconv.Itoa(base), "--set", "node.log.level=WARN"}
	if b.profile {
		settings = append(settings, "node.pprof=true")
	}
	for _, kv := range settings {
		args = append(args, "--set", kv)
	}
	s.again = func(ctx context.Context) error {
		return s.launch(ctx, cores, b.weir, args, func() bool { return httpOK(s.console + "/readyz") })
	}
	return s, s.again(ctx)
}

// startKfake starts franz-go's in-memory broker, which keeps its data on disk, as a process of its own.
func (b *bench) startKfake(ctx context.Context, cores string) (*server, error) {
	base, err := freeBase(1)
	if err != nil {
		return nil, err
	}
	s, err := b.newServer(base)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s, s.launch(ctx, cores, self, []string{"-serve-kfake", strconv.Itoa(base), "-dir", filepath.Join(s.dir, "data")}, func() bool { return answers(s.kafka) })
}

func (b *bench) newServer(base int) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // peers run as other users
		return nil, err
	}
	return &server{dir: dir, kafka: fmt.Sprintf("127.0.0.1:%d", base), log: &bytes.Buffer{}}, nil
}

// launch runs a program on cores and waits until it is ready. A program that did not get there is ended.
func (s *server) launch(ctx context.Context, cores, program string, args []string, ready func() bool) error {
	cmd := exec.Command("taskset", append([]string{"-c", cores, program}, args...)...) // taskset becomes the program
	cmd.Stdout, cmd.Stderr = s.log, s.log
	s.began = time.Now()
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", program, err), s.stop())
	}
	s.pids = []int{cmd.Process.Pid}
	s.ends = []func() error{func() error { return end(cmd) }}
	s.down = func(_ context.Context, kill bool) error {
		if kill {
			_ = cmd.Process.Kill() // gone already is fine
		}
		err := end(cmd)
		s.pids, s.ends = nil, nil
		return err
	}
	for time.Since(s.began) < 30*time.Second && ctx.Err() == nil {
		if ready() {
			s.ready = time.Since(s.began)
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	err := s.stop() // before the log is read: its writer is gone then
	return errors.Join(fmt.Errorf("%s was not ready after 30 s: %s", program, s.log.String()), err, ctx.Err())
}

// end asks a process to stop and kills it when it does not.
func end(cmd *exec.Cmd) error {
	_ = cmd.Process.Signal(syscall.SIGTERM) // gone already is fine
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit status does not matter here
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		<-done
	}
	return nil
}

// startKafka starts Apache Kafka by the peers' script, one node or three. Settings are broker settings. Its start-up time
// is from the start of the first broker's process (the kernel's clock, 10 ms) to its first answer: formatting the folder
// is left out.
func (b *bench) startKafka(ctx context.Context, cores string, nodes int, settings ...string) (*server, error) {
	base, err := freeBase(2 * nodes)
	if err != nil {
		return nil, err
	}
	s, err := b.newServer(base)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, "kafka")
	stop := func() error {
		_, err := b.script(context.WithoutCancel(ctx), cores, nil, "kafka.sh", "stop", dir)
		return err
	}
	s.ends = append(s.ends, stop)
	s.down = func(ctx context.Context, kill bool) error {
		s.pids = nil
		if !kill {
			return stop()
		}
		for node := range nodes {
			if _, err := b.script(ctx, cores, nil, "kafka.sh", "kill", dir, strconv.Itoa(node+1)); err != nil {
				return err
			}
		}
		return nil
	}
	s.again = func(ctx context.Context) error {
		args := append([]string{"start", strconv.Itoa(base), dir, strconv.Itoa(nodes)}, settings...)
		return b.runKafka(ctx, s, cores, dir, nodes, args)
	}
	for i := range nodes {
		s.members = append(s.members, b.kafkaMember(cores, dir, base, i+1))
	}
	if err := s.again(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// runKafka runs the script and takes the time of the first answer beside it.
func (b *bench) runKafka(ctx context.Context, s *server, cores, dir string, nodes int, args []string) error {
	answered := make(chan time.Time, 1)
	watch, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go func() {
		for !answers(s.kafka) && watch.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		answered <- time.Now()
	}()
	_, err := b.script(ctx, cores, []string{fmt.Sprintf("HEAP=%d", brokerHeapMiB), fmt.Sprintf("PATIENCE=%.0f", patience.Seconds())}, "kafka.sh", args...)
	if err != nil {
		cancel()
		<-answered
		return err
	}
	at := <-answered
	for node := range nodes {
		pid, err := pidIn(filepath.Join(dir, fmt.Sprintf("node-%d", node+1)))
		if err != nil {
			return err
		}
		s.pids = append(s.pids, pid)
	}
	s.began = startedAt(s.pids[0])
	s.ready = at.Sub(s.began)
	return nil
}

// withConnect adds a Java Connect worker to a Kafka server; weir has its worker inside.
func (b *bench) withConnect(ctx context.Context, s *server, cores string, settings ...string) error {
	if s.connect != "" {
		return nil
	}
	base, err := freeBase(1)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "connect")
	s.ends = append(s.ends, func() error {
		_, err := b.script(context.WithoutCancel(ctx), cores, nil, "connect.sh", "stop", dir)
		return err
	})
	args := append([]string{"start", strconv.Itoa(base), dir, s.kafka}, settings...)
	if _, err := b.script(ctx, cores, []string{connectJavaEnv}, "connect.sh", args...); err != nil {
		return err
	}
	pid, err := pidIn(dir)
	if err != nil {
		return err
	}
	s.pids, s.connect = append(s.pids, pid), fmt.Sprintf("http://127.0.0.1:%d", base)
	return nil
}

// script runs one of the peers' scripts; status 3 is its word for a peer that can't be had.
func (b *bench) script(ctx context.Context, cores string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", cores, filepath.Join(b.peers, name)}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	cmd.WaitDelay = scriptLeave
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%w: %s %s: %v: %s", errNotRun, name, args[0], err, lastLines(faults.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func pidIn(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// startedAt is when a process was started, by the kernel.
func startedAt(pid int) time.Time {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Now()
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	up, err := os.ReadFile("/proc/uptime")
	if err != nil || len(f) < 20 {
		return time.Now()
	}
	ticks, _ := strconv.ParseFloat(f[19], 64)
	seconds, _ := strconv.ParseFloat(strings.Fields(string(up))[0], 64)
	return time.Now().Add(-time.Duration((seconds - ticks/100) * float64(time.Second)))
}

// answers says whether a broker answers ApiVersions on an address.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	// Length 10, key 18, version 0, correlation 1, no client id.
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255}); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 8))
	return err == nil && n > 0
}

// allCores is the list of every core for taskset.
func allCores() string { return fmt.Sprintf("0-%d", runtime.NumCPU()-1) }
