package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	linesPerSecond = 50_000 // of a run's seconds
	lineBytes      = 101
	fileRate       = 1000 // lines per second while latency is taken
	fileWatch      = 500 * time.Microsecond
)

// fileScenario copies a file's lines through a topic to another file by one source task and one sink task.
func fileScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "file",
		title: "file source → topic → file sink in Connect",
		settings: []string{
			"one task each, StringConverter, topic of one partition (" + producerTold + "), connector defaults otherwise; the broker's and the worker's process count together",
			"the rate is from the first line in the target to the last; what passes before is its own row",
			fmt.Sprintf("warmed on both: before anything is timed %d lines per second of the run are copied", linesPerSecond/4),
			fmt.Sprintf("latency: open loop, %d lines/s appended to the source; from the moment each was due until the target is as long (seen each %v). Java's file source looks once a second", fileRate, fileWatch),
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache, each by default; " + heapsTold,
		},
		sides: sides, pairs: pairs, limit: copyLimit, measure: measureFile,
	}
}

func copyLimit(ctx context.Context, b *bench) ([]figure, error) {
	cached, err := diskStream(ctx, b.dir, false)
	return []figure{higher("disk_cached", "sequential write, page cache", "MB/s", cached)}, err
}

func measureFile(ctx context.Context, b *bench, sd side) (got sample, err error) {
	s, err := b.start(ctx, sd, allCores())
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.withConnect(ctx, s, allCores()); err != nil {
		return sample{}, err
	}
	if err := copyFile(ctx, s, "warm", linesPerSecond/4*b.seconds, nil); err != nil {
		return sample{}, fmt.Errorf("warm up: %w", err)
	}
	profiled := b.profileOf(ctx, "file", sd, s, part(b.seconds, 0.4))
	if err := copyFile(ctx, s, "bench", linesPerSecond*b.seconds, &got); err != nil {
		return sample{}, err
	}
	if err := profiled(); err != nil {
		return sample{}, err
	}
	folder := filepath.Join(s.dir, "bench")
	took, err := appendLines(ctx, folder, part(b.seconds, latencyPart))
	if err != nil {
		return sample{}, err
	}
	got.Figures = append(got.Figures, latencyFigures("line", fmt.Sprintf("line to line, %d/s", fileRate), took)...)
	got.Figures = append(got.Figures, lower("peak", "peak RSS of broker and worker", "MiB", s.usage().peakMiB))
	seen, err := shell(ctx, `test "$(sha256sum <"$1/in")" = "$(sha256sum <"$1/out")" && wc -l <"$1/out"`, folder)
	if err != nil {
		return sample{}, fmt.Errorf("%w: the copy differs from the file: %w", errWrong, err)
	}
	got.Verified = fmt.Sprintf("wc counted %s lines, sha256sum of both files is the same", seen)
	return got, nil
}

// copyFile lets a source and a sink of that name copy lines through the topic of that name; got takes the figures.
func copyFile(ctx context.Context, s *server, name string, lines int, got *sample) error {
	folder := filepath.Join(s.dir, name)
	size, err := writeLines(folder, lines)
	if err != nil {
		return err
	}
	ends, err := newEnds(ctx, s.kafka, name)
	if err != nil {
		return err
	}
	ends.Close()
	out := filepath.Join(folder, "out")
	const text = "org.apache.kafka.connect.storage.StringConverter"
	disk := deviceOf(s.dir)
	before, diskBefore := s.usage(), disk.writtenBytes()
	sink := map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1", "topics": name, "file": out,
		"key.converter": text, "value.converter": text,
	}
	source := map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "topic": name, "file": filepath.Join(folder, "in"),
		"key.converter": text, "value.converter": text,
	}
	maps.Copy(source, producerSettings())
	if err := errors.Join(put(ctx, s, name+"-sink", sink), put(ctx, s, name+"-source", source)); err != nil {
		return err
	}
	moved, err := watch(ctx, "copy the file", 0, float64(size), func() (float64, error) { return copied(ctx, s, name, out) })
	if err != nil || got == nil {
		return err
	}
	after, diskBytes, perLine := s.usage(), disk.writtenBytes()-diskBefore, float64(lineBytes)
	got.Figures = append(got.Figures,
		higher("rate", "source to sink", "lines/s", moved.perSecond()/perLine),
		lower("wait", "from the request to the first line", "ms", float64(moved.wait.Milliseconds())),
		lower("cpu", "CPU of broker and worker", "s per million", (after.cpuSeconds-before.cpuSeconds)/float64(lines)*1e6))
	got.Figures = append(got.Figures, writeFigures(diskBytes, after.writtenBytes-before.writtenBytes, float64(size))...)
	return nil
}

// appendLines appends lines to the source at a fixed rate and answers the sorted times from when each was due until the
// target held it; the first quarter is left out.
func appendLines(ctx context.Context, folder string, limit time.Duration) ([]time.Duration, error) {
	in, err := os.OpenFile(filepath.Join(folder, "in"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	n := int(fileRate * limit.Seconds())
	began := time.Now().Add(100 * time.Millisecond)
	due := func(i int) time.Time { return began.Add(time.Duration(i) * time.Second / fileRate) }
	written := make(chan error, 1)
	go func() { written <- appendAt(in, n, due) }()
	took, err := watchLines(ctx, filepath.Join(folder, "out"), start, n, due)
	return took, errors.Join(err, <-written)
}

// appendAt writes each line at its moment.
func appendAt(in io.Writer, n int, due func(int) time.Time) error {
	clock, err := newAlarm()
	if err != nil {
		return err
	}
	defer clock.file.Close()
	for i := range n {
		if err := clock.wait(due(i)); err != nil {
			return err
		}
		if _, err := in.Write(line(i)); err != nil {
			return err
		}
	}
	return nil
}

// watchLines looks at the target's length until n more lines are in it.
func watchLines(ctx context.Context, path string, start int64, n int, due func(int) time.Time) (took []time.Duration, err error) {
	clock, err := newAlarm()
	if err != nil {
		return nil, err
	}
	defer clock.file.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const warm = 4
	for next := 0; next < n; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d lines have come: %w", next, n, ctx.Err())
		}
		if err := clock.wait(time.Now().Add(fileWatch)); err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		for now := time.Now(); next < n && start+int64(next+1)*lineBytes <= info.Size(); next++ {
			if next >= n/warm {
				took = append(took, now.Sub(due(next)))
			}
		}
	}
	slices.Sort(took)
	return took, nil
}

// copied is the target's size; a connector that failed is an error.
func copied(ctx context.Context, s *server, name, out string) (float64, error) {
	for _, name := range []string{name + "-source", name + "-sink"} {
		if _, err := running(ctx, s, name); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), nil
}

// writeLines makes the source file, in a folder that other users may write to.
func writeLines(folder string, lines int) (sizeBytes int64, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return 0, err
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		return 0, err
	}
	f, err := os.Create(filepath.Join(folder, "in"))
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range lines {
		_, _ = w.Write(line(i)) // Flush tells
	}
	return int64(lines) * lineBytes, errors.Join(w.Flush(), f.Close())
}

// line is the i-th, lineBytes long.
func line(i int) []byte { return fmt.Appendf(nil, "%015d %084d\n", i, 0) }
