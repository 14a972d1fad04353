package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const linesPerSecond = 50_000 // of a run's seconds

// fileScenario copies a file's lines through a topic to another file by one source task and one sink task.
func fileScenario(sides []side, pairs []pair) scenario {
	return scenario{
		name:  "file",
		title: "file source → topic → file sink in Connect",
		settings: []string{
			"one task each, StringConverter, topic of one partition, connector defaults otherwise; the broker's and the worker's process count together",
			"the rate is from the first line in the target to the last; what passes before is its own row",
			"weir acknowledges from disk (log.flush=group), Kafka from the page cache, each by default",
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
	lines := linesPerSecond * b.seconds
	folder := filepath.Join(s.dir, "files")
	size, err := writeLines(folder, lines)
	if err != nil {
		return sample{}, err
	}
	if err := createTopic(ctx, s.kafka, 1); err != nil {
		return sample{}, err
	}
	out := filepath.Join(folder, "out")
	text := "org.apache.kafka.connect.storage.StringConverter"
	disk := deviceOf(s.dir)
	before, diskBefore := s.usage(), disk.writtenBytes()
	profiled := b.profileOf(ctx, "file", sd, s, part(b.seconds, 0.4))
	if err := put(ctx, s, "sink", map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max": "1", "topics": topicName, "file": out,
		"key.converter": text, "value.converter": text,
	}); err != nil {
		return sample{}, err
	}
	if err := put(ctx, s, "source", map[string]string{
		"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "topic": topicName, "file": filepath.Join(folder, "in"),
		"key.converter": text, "value.converter": text,
	}); err != nil {
		return sample{}, err
	}
	moved, err := watch(ctx, "copy the file", 0, float64(size), func() (float64, error) { return copied(ctx, s, out) })
	if err != nil {
		return sample{}, err
	}
	after, diskBytes := s.usage(), disk.writtenBytes()-diskBefore
	if err := profiled(); err != nil {
		return sample{}, err
	}
	perLine := float64(size) / float64(lines)
	got.Figures = []figure{
		higher("rate", "source to sink", "lines/s", moved.perSecond()/perLine),
		lower("wait", "from the request to the first line", "ms", float64(moved.wait.Milliseconds())),
		lower("cpu", "CPU of broker and worker", "s per million", (after.cpuSeconds-before.cpuSeconds)/float64(lines)*1e6),
		lower("peak", "peak RSS of broker and worker", "MiB", after.peakMiB),
	}
	got.Figures = append(got.Figures, writeFigures(diskBytes, after.writtenBytes-before.writtenBytes, float64(size))...)
	seen, err := shell(ctx, `test "$(sha256sum <"$1/in")" = "$(sha256sum <"$1/out")" && wc -l <"$1/out"`, folder)
	if err != nil {
		return sample{}, fmt.Errorf("%w: the copy differs from the file: %w", errWrong, err)
	}
	got.Verified = fmt.Sprintf("wc counted %s lines, sha256sum of both files is the same", seen)
	return got, nil
}

// copied is the target's size; a connector that failed is an error.
func copied(ctx context.Context, s *server, out string) (float64, error) {
	for _, name := range []string{"source", "sink"} {
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
	filler := strings.Repeat("x", 84)
	for i := range lines {
		fmt.Fprintf(w, "%015d %s\n", i, filler)
	}
	return int64(lines) * 101, errors.Join(w.Flush(), f.Close())
}
