//go:build !race

package sim

// seedsMax is how many seeds a test plays.
const seedsMax = 300
