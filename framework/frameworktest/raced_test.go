//go:build race

package frameworktest_test

// raced: the race detector watches, and everything takes ten times as long. Its clock, which counts what a
// process has synchronised, has been seen to run out after some three minutes of chaos, with a CHECK
// failed of its own: so it watches fewer seeds.
const (
	raced          = true
	chaosSeeds     = 8
	chaosSeedsLong = 20
)
