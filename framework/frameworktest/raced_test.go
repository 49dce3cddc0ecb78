//go:build race

package frameworktest_test

// raced: the race detector watches, and everything takes ten times as long.
const raced = true
