//go:build !race

package coretest

const isRace = false
