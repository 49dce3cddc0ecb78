//go:build race

package frameworktest_test

// raced says that the race detector is on. Everything takes ten times as long then. After some three minutes of chaos
// the detector's own clock, which counts what a process has synchronised, has run out with a failed CHECK. So it gets
// fewer seeds.
const (
	raced          = true
	chaosSeeds     = 5
	chaosSeedsLong = 20
)
