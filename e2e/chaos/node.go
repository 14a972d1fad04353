package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	nodes     = 3
	stopLimit = 45 * time.Second // for a broker that was asked to end

	javaTerminated = 143 // how Java tells that it ended as SIGTERM asked
)

// node is one broker: a process that dir/run becomes, in a namespace of its own.
type node struct {
	id   int
	dir  string
	cmd  *exec.Cmd  // nil: it was ended
	done chan error // gives the process's end, once
}

// cluster is the brokers and the network between them.
type cluster struct {
	net   *network
	nodes [nodes]*node
}

func newCluster(net *network, dir string) *cluster {
	c := &cluster{net: net}
	for i := range nodes {
		c.nodes[i] = &node{id: i + 1, dir: filepath.Join(dir, fmt.Sprint("node-", i+1))}
	}
	return c
}

// start runs a node's process and does not wait for it to be ready.
func (c *cluster) start(id int) error {
	n := c.nodes[id-1]
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("ip", "netns", "exec", c.net.namespace(id), filepath.Join(n.dir, "run")) // each becomes the next: one process
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is this program's
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", id, err)
	}
	n.cmd, n.done = cmd, make(chan error, 1)
	go func(done chan<- error) { done <- cmd.Wait() }(n.done) // received by kill, stop or ended
	return nil
}

// kill ends nodes by SIGKILL, all before it waits for any. One that runs no more is left alone.
func (c *cluster) kill(ids ...int) error {
	for _, id := range ids {
		if n := c.nodes[id-1]; n.cmd != nil {
			if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("kill node %d: %w", id, err)
			}
		}
	}
	for _, id := range ids {
		if n := c.nodes[id-1]; n.cmd != nil {
			_ = n.reap() // it was killed
		}
	}
	return nil
}

// reap waits for the process's end and says how it was.
func (n *node) reap() error {
	err := <-n.done
	n.cmd = nil
	return err
}

// stop asks a node to end and waits for it.
func (c *cluster) stop(id int) error {
	n := c.nodes[id-1]
	if err := c.signal(id, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-n.done:
		n.cmd = nil
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == javaTerminated {
			return nil
		}
		if err != nil {
			return fmt.Errorf("node %d was asked to end: %w; its log is %s", id, err, filepath.Join(n.dir, "log"))
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("node %d still runs %v after SIGTERM", id, stopLimit), c.kill(id))
	}
}

func (c *cluster) signal(id int, sig syscall.Signal) error {
	n := c.nodes[id-1]
	if n.cmd == nil {
		return fmt.Errorf("signal node %d: it does not run", id)
	}
	if err := n.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal node %d: %w", id, err)
	}
	return nil
}

// ended names a node that has ended though nobody asked it to; 0: none.
func (c *cluster) ended() (int, error) {
	for _, n := range c.nodes {
		if n.cmd == nil {
			continue
		}
		select {
		case err := <-n.done:
			n.cmd = nil
			return n.id, fmt.Errorf("%w: node %d (%v); its log is %s", errEnded, n.id, err, filepath.Join(n.dir, "log"))
		default:
		}
	}
	return 0, nil
}

// errEnded is a broker's end that nobody asked for.
var errEnded = errors.New("a broker ended by itself")

// all is every node's number.
func all() []int {
	ids := make([]int, nodes)
	for i := range ids {
		ids[i] = i + 1
	}
	return ids
}

// close ends whatever runs. A stopped process can be killed too.
func (c *cluster) close(context.Context) error { return c.kill(all()...) }
