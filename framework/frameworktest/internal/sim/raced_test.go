//go:build race

package sim

// seedsMax is how many seeds a test plays. With the race detector each takes ten times as long, and there is only one
// goroutine that it could watch.
const seedsMax = 20
