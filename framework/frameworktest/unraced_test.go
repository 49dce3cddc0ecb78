//go:build !race

package frameworktest_test

const (
	raced          = false
	chaosSeeds     = 20
	chaosSeedsLong = 300
)
