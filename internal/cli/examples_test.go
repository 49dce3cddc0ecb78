package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBatchExample runs examples/batch on real processes: its binary is scheduler and executor.
func TestBatchExample(t *testing.T) {
	needsBinary(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "batch")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/batch").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "hello")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, "--agents", "2")
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	command := exec.CommandContext(ctx, program, "-attempts", "2", "-wait", "100ms", file, file+"@elsewhere", filepath.Join(dir, "none"))
	command.Env = append(os.Environ(), d.env...)
	var out, stderr strings.Builder
	command.Stdout, command.Stderr = &out, &stderr
	err := command.Run()
	line := "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824  " + file + "\n"
	if out.String() != line+line || err == nil {
		t.Errorf("it ended with %v and printed\n%s%s", err, &out, &stderr)
	}
	for _, words := range []string{"2 files done, 1 given up, 4 attempts; 0 of 1 where they are", "file-2: 2 attempts failed", "no such file or directory"} {
		if !strings.Contains(stderr.String(), words) {
			t.Errorf("it does not say %q:\n%s", words, &stderr)
		}
	}
}
