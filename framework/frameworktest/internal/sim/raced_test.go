//go:build race

package sim

// seedsMax is how many seeds a test plays; watched by the race detector each takes ten times as
// long, and there is only one goroutine to watch.
const seedsMax = 20
