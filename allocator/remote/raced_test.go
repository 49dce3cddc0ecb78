//go:build race

package remote

// raced: the race detector watches.
const raced = true
