package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// weirProcess is a running weir start with a data folder of its own.
type weirProcess struct {
	cmd   *exec.Cmd
	dir   string
	base  int
	log   bytes.Buffer
	ready time.Duration // from fork to /readyz
}

// freeBase finds four ports in a row that nobody listens on.
func freeBase() (int, error) {
	for base := 23000; base < 30000; base += 4 {
		free := true
		for i := range 4 {
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
	return 0, errors.New("no four free ports in a row")
}

// startWeir starts a node and waits until it is ready.
func (b *bench) startWeir(ctx context.Context) (*weirProcess, error) {
	base, err := freeBase()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "weir-bench-")
	if err != nil {
		return nil, err
	}
	p := &weirProcess{dir: dir, base: base}
	p.cmd = exec.Command(b.weir, "start", "--data", filepath.Join(dir, "data"), "--port-base", strconv.Itoa(base), "--set", "node.log.level=WARN")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", b.weir, err), os.RemoveAll(dir))
	}
	for time.Since(began) < 30*time.Second && ctx.Err() == nil {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", base+3))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				p.ready = time.Since(began)
				return p, nil
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("not ready after 30 s: %s", p.log.String()), p.stop())
}

// stop ends the process and removes its data.
func (p *weirProcess) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already is fine
	done := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // its exit status does not matter here
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
	return os.RemoveAll(p.dir)
}

func (p *weirProcess) kafka() string { return fmt.Sprintf("127.0.0.1:%d", p.base) }

// rssMiB is resident memory now and at its peak.
func (p *weirProcess) rssMiB() (now, peak float64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return now, peak
}

// cpuSeconds is user plus system time of a process so far.
func cpuSeconds(pid int) float64 {
	const ticksPerSecond = 100 // USER_HZ on Linux
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / ticksPerSecond
}
