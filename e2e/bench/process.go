package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usage is what processes have used so far, summed over them and all their threads.
type usage struct {
	cpuSeconds   float64 // user and system
	writtenBytes float64 // sent to the disk by /proc/PID/io
	rssMiB       float64 // resident now
	peakMiB      float64 // sum of each one's own peak
}

// usageOf reads /proc; a process that is gone counts nothing.
func usageOf(pids ...int) usage {
	var u usage
	for _, pid := range pids {
		now, peak := rssMiB(pid)
		u.cpuSeconds += cpuSeconds(pid)
		u.writtenBytes += writtenBytes(pid)
		u.rssMiB += now
		u.peakMiB += peak
	}
	return u
}

// rssMiB is resident memory now and at its peak.
func rssMiB(pid int) (now, peak float64) {
	for name, value := range procFields(fmt.Sprintf("/proc/%d/status", pid)) {
		switch name {
		case "VmRSS":
			now = value / 1024
		case "VmHWM":
			peak = value / 1024
		}
	}
	return now, peak
}

func writtenBytes(pid int) float64 { return procFields(fmt.Sprintf("/proc/%d/io", pid))["write_bytes"] }

// procFields reads lines of the form "name: number …".
func procFields(path string) map[string]float64 {
	found := map[string]float64{}
	b, err := os.ReadFile(path)
	if err != nil {
		return found
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		if f := strings.Fields(rest); len(f) > 0 {
			if value, err := strconv.ParseFloat(f[0], 64); err == nil {
				found[name] = value
			}
		}
	}
	return found
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

// pinClient keeps this process, and so every load it makes, on one core; the answer undoes it. Threads that are made
// later inherit the mask of the one that makes them, hence the second pass.
func pinClient(core int) (undo func(), err error) {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("read affinity: %w", err)
	}
	one.Set(core)
	procs := runtime.GOMAXPROCS(1)
	if err := pinThreads(&one); err != nil {
		return nil, err
	}
	return func() {
		_ = pinThreads(&before) // the mask was ours to begin with
		runtime.GOMAXPROCS(procs)
	}, nil
}

func pinThreads(set *unix.CPUSet) error {
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, t := range threads {
			id, _ := strconv.Atoi(t.Name())
			if err := unix.SchedSetaffinity(id, set); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pin thread %d: %w", id, err)
			}
		}
	}
	return nil
}
