package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheProgramsSayWhatIsMeasured: the benchmark of the small Spark finds its figures in the output of the programs.
func TestTheProgramsSayWhatIsMeasured(t *testing.T) {
	dir := t.TempDir()
	programs, points := filepath.Join(dir, "programs"), filepath.Join(dir, "points")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "github.com/tenderhq/tender/examples/rdd/programs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, one := range []struct {
		args []string
		said []string
	}{
		{[]string{"wordcount", "-local", "-verify", "-top", "0", "."}, []string{"counted in", "count the same"}},
		{[]string{"generate", "-local", "-points", "1000", "-dir", points}, nil},
		{[]string{"logreg", "-local", "-iterations", "2", points}, []string{"mean of the later"}},
	} {
		out, err := exec.CommandContext(t.Context(), programs, one.args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", one.args[0], err, out)
		}
		for _, words := range one.said {
			if _, err := secondsOf(string(out), words); err != nil {
				t.Error(err)
			}
		}
	}
}
