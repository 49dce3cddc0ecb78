package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResetTerm: the state of an agent's folder can be shown, and its term is reset only if the agent's ID is given.
func TestResetTerm(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"identity", "checkpoint.log"} {
		data, err := os.ReadFile(filepath.Join("../../../agent/checkpoint/testdata/format1", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &shell{}
	look := func(args ...string) string {
		t.Helper()
		out, errs, code := s.run(t, append([]string{"agent", "reset-term", "--data-dir", home}, args...)...)
		if code != 0 {
			t.Fatalf("%v: %d %s%s", args, code, out, errs)
		}
		return out
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if out, errs, code := s.run(t, args...); code == 0 || !strings.Contains(errs, says) || out != "" {
			t.Errorf("%v: %d %q %q", args, code, out, errs)
		}
	}
	first := look()
	if !strings.Contains(first, "Nothing was changed") || look() != first {
		t.Fatalf("the first look: %s", first)
	}
	id := strings.Fields(first)[1]
	refused("--data-dir FOLDER", "agent", "reset-term")
	refused("no agent's data folder", "agent", "reset-term", "--data-dir", t.TempDir())
	refused("nothing was changed", "agent", "reset-term", "--data-dir", home, "--confirm", "agent-of-others")
	if out := look("--confirm", id); !strings.Contains(out, "agent "+id+" has forgotten term") {
		t.Errorf("reset: %s", out)
	}
	if after := look(); after == first || !strings.Contains(after, id) {
		t.Errorf("afterwards: %s", after)
	}
}
