//go:build race

package coretest

// isRace: the race detector makes a run ten times slower, and there is but one goroutine.
const isRace = true
