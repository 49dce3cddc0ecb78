//go:build !race

package frameworktest_test

const raced = false
