package vfs

import (
	"math/rand/v2"
	"path"
	"sort"
)

// How much of what was not synced a crash keeps.
const (
	keepNone = iota
	keepAll
	keepCalls   // each call or not
	keepSectors // each 512 bytes of a write or not
	keepPages   // each 4 KiB of a write or not
	keepModes
)

// CrashClone returns the disk as it may be found after power was cut now: all that was synced, and of the rest whatever rng picks: whole
// calls, single sectors or pieces of 4 KiB of writes, later ones without earlier ones, entries of folders. The clone has no injection,
// no locks and no crash to come; m is unchanged.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := map[string]*inode{}
	for name, node := range m.stable {
		entries[name] = node
	}
	mode := rng.IntN(keepModes)
	for _, step := range m.steps {
		if mode == keepAll || mode != keepNone && rng.IntN(2) == 0 {
			step.apply(entries)
		}
	}
	removeOrphans(entries)
	clone := NewMem()
	copies := map[*inode]*inode{}
	for _, name := range sortedNames(entries) {
		node := entries[name]
		if name == "/" || name == "." {
			continue
		}
		if copies[node] == nil {
			data := node.crash(rng)
			copies[node] = &inode{isDir: node.isDir, data: data, stable: append([]byte(nil), data...)}
		}
		clone.now[name], clone.stable[name] = copies[node], copies[node]
	}
	return clone
}

// crash gives an inode's data after a crash.
func (n *inode) crash(rng *rand.Rand) []byte {
	data := append([]byte(nil), n.stable...)
	mode := rng.IntN(keepModes)
	for _, w := range n.writes {
		switch {
		case mode == keepNone:
		case mode == keepAll:
			data = w.apply(data)
		case mode == keepCalls || w.data == nil:
			if rng.IntN(2) == 0 {
				data = w.apply(data)
			}
		default:
			data = w.crash(rng, data, mode)
		}
	}
	return data
}

// crash applies some pieces of a write; a piece that reaches beyond the file makes it longer, with zeros before it.
func (w write) crash(rng *rand.Rand, data []byte, mode int) []byte {
	piece := int64(512)
	if mode == keepPages {
		piece = 4096
	}
	for at, rest := w.place, w.data; len(rest) > 0; {
		n := min(piece-at%piece, int64(len(rest)))
		if rng.IntN(2) == 0 {
			data = overwrite(data, at, rest[:n])
		}
		at, rest = at+n, rest[n:]
	}
	return data
}

// removeOrphans drops entries whose folder did not survive.
func removeOrphans(entries map[string]*inode) {
	for again := true; again; {
		again = false
		for name := range entries {
			if name == "/" || name == "." {
				continue
			}
			if parent := entries[path.Dir(name)]; parent == nil || !parent.isDir {
				delete(entries, name)
				again = true
			}
		}
	}
}

func sortedNames(entries map[string]*inode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
