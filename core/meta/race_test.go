//go:build race

package meta

const isRace = true
