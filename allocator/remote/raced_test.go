//go:build race

package remote

// raced says that the race detector is on.
const raced = true
