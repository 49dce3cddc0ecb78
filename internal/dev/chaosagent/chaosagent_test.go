package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestChaosAgent kills an agent with a few executors a few times, without namespaces for tasks and with them;
// `make chaos-agent` does so a thousand times with fifty.
func TestChaosAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc for what is left")
	}
	folder := t.TempDir()
	// As the tests of the CLI build it, so that one of them finds all that the other has compiled.
	build := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "../../..", ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, isolation := range []string{"auto", "namespaces"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "namespaces" && os.Geteuid() != 0 {
				t.Skip("only root makes namespaces for tasks")
			}
			command := exec.CommandContext(t.Context(), filepath.Join(folder, "chaosagent"),
				"-binary", filepath.Join(folder, "tender"), "-cycles", "4", "-executors", "5", "-isolation", isolation)
			command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
			out, err := command.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
