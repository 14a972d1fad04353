package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const sectorBytes = 512

// device is the disk below a folder. What it has written is the machine's count: on a quiet machine that is the server's,
// and unlike /proc/PID/io it is not blown up by large folios (one changed byte there counts as all of its folio).
type device struct {
	dir  string
	stat string // empty where the folder is on no disk of its own
}

func deviceOf(dir string) device {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return device{dir: dir}
	}
	path := fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))
	if _, err := os.Stat(path); err != nil {
		return device{dir: dir}
	}
	return device{dir, path}
}

// writtenBytes brings everything that is still in the page cache to the disk and answers the disk's count.
func (d device) writtenBytes() float64 {
	if d.stat == "" {
		return 0
	}
	f, err := os.Open(d.dir)
	if err != nil {
		return 0
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return 0
	}
	text, err := os.ReadFile(d.stat)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	const sectorsWritten = 6
	if len(fields) <= sectorsWritten {
		return 0
	}
	n, _ := strconv.ParseFloat(fields[sectorsWritten], 64)
	return n * sectorBytes
}

// writeFigures are the bytes written for each byte of payload: by the disk and by the server's own account.
func writeFigures(diskBytes, processBytes, payloadBytes float64) []figure {
	return []figure{
		lower("disk", "written by the disk per byte (of all processes)", "bytes", diskBytes/payloadBytes),
		lower("dirtied", "page cache dirtied per byte (/proc/PID/io, whole folios)", "bytes", processBytes/payloadBytes),
	}
}
