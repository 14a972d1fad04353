package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readLimit is for reading everything once.
const readLimit = 3 * time.Minute

// ends is where each partition ends; it asks until every leader answers.
func ends(ctx context.Context, bootstrap []string) ([]int64, error) {
	cl, err := kgo.NewClient(append(patient(bootstrap), hasty()...)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var at []int64
	err = until(ctx, wholeLimit, "every partition tells its end", func(ctx context.Context) (string, bool) {
		listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topicName)
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return err.Error(), false
		}
		at = make([]int64, partitions)
		for p := range at {
			o, ok := listed.Lookup(topicName, int32(p))
			if !ok {
				return fmt.Sprintf("partition %d is not there", p), false
			}
			at[p] = o.Offset
		}
		return "", true
	})
	return at, err
}

// readAll reads everything by kgo.
func readAll(ctx context.Context, bootstrap []string) (content, error) {
	at, err := ends(ctx, bootstrap)
	if err != nil {
		return nil, err
	}
	from, left := map[int32]kgo.Offset{}, int64(0)
	for p, end := range at {
		from[int32(p)] = kgo.NewOffset().At(0)
		left += end
	}
	cl, err := kgo.NewClient(append(patient(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: from}))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	limit, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	log := make(content, partitions)
	for left > 0 && limit.Err() == nil {
		cl.PollFetches(limit).EachRecord(func(r *kgo.Record) {
			log[r.Partition] = append(log[r.Partition], record{r.Offset, string(r.Value)})
			left--
		})
	}
	if left > 0 {
		return nil, fmt.Errorf("%d records could not be read in %v", left, readLimit)
	}
	return log, nil
}

// readByKcat reads everything by kcat.
func readByKcat(ctx context.Context, bootstrap []string) (content, error) {
	limit, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	cmd := exec.CommandContext(limit, "kcat", "-C", "-q", "-b", strings.Join(bootstrap, ","), "-t", topicName, "-o", "beginning", "-e", "-f", "%p %o %s\n", "-X", "log_level=2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	log := make(content, partitions)
	bad := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		part, rest, _ := strings.Cut(lines.Text(), " ")
		offset, value, _ := strings.Cut(rest, " ")
		p, err := strconv.Atoi(part)
		o, err2 := strconv.ParseInt(offset, 10, 64)
		if err != nil || err2 != nil || p >= partitions {
			bad = lines.Text()
			continue
		}
		log[p] = append(log[p], record{o, value})
	}
	if err := cmd.Wait(); err != nil || bad != "" {
		return nil, fmt.Errorf("read by kcat: %v %q: %s", err, bad, strings.TrimSpace(said.String()))
	}
	return log, nil
}
