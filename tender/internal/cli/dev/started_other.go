//go:build !linux

package dev

// startedBelow returns none: on this system processes can't be found by their environment. Executors end by themselves
// all the same.
func startedBelow(string) []int { return nil }

func executorsBelow(string) []int { return nil }
