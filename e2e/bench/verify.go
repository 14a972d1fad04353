package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// errWrong marks an answer that is not what was written.
var errWrong = errors.New("wrong answer")

const (
	hashedRecords    = 20_000 // of each partition from its start, and
	hashedTail       = 1_000  // to its end
	hashedPartitions = 8      // of the topic at most; all are counted

	leadersLimit = time.Minute // for a started broker to lead all of its partitions
)

// verify has kcat count every partition and sha256sum hash the start and the end of the first few.
func (l *load) verify(ctx context.Context, addr string) (string, error) {
	if err := l.verifyCounts(ctx, addr); err != nil {
		return "", err
	}
	hashed := int64(0)
	for p := range min(len(l.values), hashedPartitions) {
		n := l.acked[p]
		for _, span := range [][2]int64{{0, min(n, hashedRecords)}, {max(n-hashedTail, 0), n}} {
			if err := l.verifyHash(ctx, addr, p, span[0], span[1]); err != nil {
				return "", err
			}
			hashed += span[1] - span[0]
		}
	}
	return fmt.Sprintf("kcat counted %d records in %d partitions; sha256sum of %d of them is right", l.records(), len(l.values), hashed), nil
}

func (l *load) verifyCounts(ctx context.Context, addr string) error {
	args := []string{"-b", addr, "-Q"}
	for p := range l.values {
		args = append(args, "-t", fmt.Sprintf("%s:%d:-1", topicName, p))
	}
	out, err := kcatOffsets(ctx, args)
	if err != nil {
		return err
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		// bench [3] offset 1234
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		p, _ := strconv.Atoi(strings.Trim(f[1], "[]"))
		n, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil || p < 0 || p >= len(l.acked) || n != l.acked[p] {
			return fmt.Errorf("%w: kcat says %q, acknowledged were %d", errWrong, strings.TrimSpace(line), l.acked[min(max(p, 0), len(l.acked)-1)])
		}
		seen++
	}
	if seen != len(l.values) {
		return fmt.Errorf("%w: kcat tells of %d partitions, not %d: %s", errWrong, seen, len(l.values), out)
	}
	return nil
}

// kcatOffsets runs kcat -Q, again while it fails: a broker that has just been started may not lead all of its partitions yet, which
// says nothing about the records. What it answers in the end is judged by the caller.
func kcatOffsets(ctx context.Context, args []string) ([]byte, error) {
	for end := time.Now().Add(leadersLimit); ; {
		out, err := exec.CommandContext(ctx, "kcat", args...).Output()
		if err == nil {
			return out, nil
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || time.Now().After(end) {
			return nil, fmt.Errorf("kcat -Q: %w: %s", err, tailOf(exit, out))
		}
		if err := sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// tailOf is the end of what a program that failed has said.
func tailOf(exit *exec.ExitError, out []byte) string {
	if exit != nil {
		out = append(exit.Stderr, out...)
	}
	return strings.TrimSpace(string(out[max(0, len(out)-300):]))
}

// verifyHash compares records [first, end) of a partition.
func (l *load) verifyHash(ctx context.Context, addr string, p int, first, end int64) error {
	if end == first {
		return nil
	}
	want := sha256.New()
	for i := first; i < end; i++ {
		want.Write(l.value(p, i))
	}
	got, err := shell(ctx, `kcat -b "$1" -C -q -e -t "$2" -p "$3" -o "$4" -c "$5" -f %s | sha256sum`, addr, topicName, strconv.Itoa(p), strconv.FormatInt(first, 10), strconv.FormatInt(end-first, 10))
	if err != nil {
		return err
	}
	if sum, _, _ := strings.Cut(got, " "); sum != hex.EncodeToString(want.Sum(nil)) {
		return fmt.Errorf("%w: records %d to %d of partition %d hash to %s, not %x", errWrong, first, end-1, p, sum, want.Sum(nil))
	}
	return nil
}

// shell runs a pipeline with its parameters as $1, $2 …; each part of it must succeed.
func shell(ctx context.Context, pipeline string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "bash", append([]string{"-o", "pipefail", "-c", pipeline, "bash"}, args...)...).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("%s: %w: %s", pipeline, err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s: %w", pipeline, err)
	}
	return strings.TrimSpace(string(out)), nil
}
