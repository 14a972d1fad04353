// Package vfs is the one door to disk.
//
// FS is what the storage packages may ask of a file system; OS answers with the machine's,
// NewMem with a disk in memory that forgets, on CrashClone, whatever was not synced: whole
// writes, single sectors of them, directory entries, renames. Nothing above this package
// imports os for data files.
//
// Invariants:
//  1. A call that returned nil from Sync, SyncDir or SyncFS made durable what its comment names,
//     and nothing else is durable.
//  2. An error of a sync is final: the caller must not retry it and believe the second answer.
//  3. Paths are slash-separated and used as given; the package keeps no current folder.
//
// Neighbours: storage, storage/tier and core (small files through WriteAtomic).
package vfs
