//go:build !race

package remote

const raced = false
