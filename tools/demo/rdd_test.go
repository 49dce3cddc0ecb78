package main

import (
	"path/filepath"
	"runtime"
	"testing"

	testprogram "github.com/tenderhq/tender/internal/testing/program"
)

// TestDemo runs the demo with little data on real processes. The demo fails if the results differ: with one of three
// executors killed (kill -9) between two iterations, they are the same to the last digit.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc to find an executor to kill")
	}
	folder := t.TempDir()
	if err := testprogram.Build(folder, ""); err != nil {
		t.Fatal(err)
	}
	d := &learning{binary: filepath.Join(folder, "tender"), agents: 3, gb: 0.0003, iterations: 4, plain: 2, memory: 128, text: "."}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
