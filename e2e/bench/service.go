package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The servers that are read from or written to, the same for every side; nobody compares them.
const (
	servicePostgres   = "postgres"
	serviceMySQL      = "mysql"
	serviceMariaDB    = "mariadb"
	serviceS3         = "s3"
	serviceOpenSearch = "opensearch"
)

// service is such a server at work.
type service struct {
	script string // with what it is started and asked
	dir    string
	addr   string // as the script prints it: HOST:PORT or http://HOST:PORT
}

// serve starts services with empty folders for one scenario; stop ends them and removes what they kept. One that can't
// be had is errNotRun.
func (b *bench) serve(ctx context.Context, names []string) (stop func() error, err error) {
	var ends []func() error
	stop = func() error {
		var faults []error
		for _, end := range ends {
			faults = append(faults, end())
		}
		b.services = nil
		return errors.Join(faults...)
	}
	b.services = map[string]service{}
	for _, name := range names {
		base, err := freeBase(2) // OpenSearch takes the next port too
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		s := service{script: filepath.Join(b.peers, "..", "services", name+".sh"), dir: filepath.Join(b.dir, name)}
		if err := os.RemoveAll(s.dir); err != nil {
			return nil, errors.Join(err, stop())
		}
		ends = append(ends, func() error {
			_, err := s.run(context.WithoutCancel(ctx), "", "stop", s.dir)
			return errors.Join(err, os.RemoveAll(s.dir))
		})
		if s.addr, err = s.run(ctx, "", "start", fmt.Sprint(base), s.dir); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", errNotRun, name, err), stop())
		}
		b.services[name] = s
	}
	return stop, nil
}

// run runs the service's script with a standard input and answers what it prints.
func (s service) run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.script, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	cmd.WaitDelay = scriptLeave
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", errors.Join(fmt.Errorf("%s %s: %w: %s", filepath.Base(s.script), args[0], err, lastLines(faults.String())), ctx.Err())
	}
	return strings.TrimSpace(out.String()), nil
}

// lastLines is the end of what a script has complained about, on one line.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-scriptLines):], " / ")
}
