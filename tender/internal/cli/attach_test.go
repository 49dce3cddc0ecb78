package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Attaching to a run that has detached shows everything that its tasks have written, and how they end.
func TestAttach(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	gate := filepath.Join(t.TempDir(), "gate")
	line := "echo out of $TENDER_TASK_ID; echo err >&2; until test -e " + gate + "; do sleep 0.01; done; echo last; exit 3"
	if _, stderr, code := tender(t, d.env, "run", "--detach", "-n", "2", "--name", "nightly", "--", "sh", "-c", line); code != 0 ||
		!strings.Contains(stderr, "'tender attach framework-1' shows what they print") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	leaves := start(t, d.env, "attach", "nightly")
	leaves.await("nightly.1 | out of nightly.1\n")
	leaves.signal(syscall.SIGINT)
	if code := leaves.wait(); code != 130 {
		t.Errorf("Ctrl-C: exit code %d, %s", code, &leaves.stderr)
	}
	stays := start(t, d.env, "attach", "nightly")
	stays.await("nightly.0 | out of nightly.0\n")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(when, stdout, stderr string, code int) {
		t.Helper()
		for _, line := range []string{"nightly.0 | last\n", "nightly.1 | last\n", "nightly.1 | out of nightly.1\n"} {
			if strings.Count(stdout, line) != 1 {
				t.Errorf("%s: %q does not stand once in %q", when, line, stdout)
			}
		}
		if code != 3 || !strings.Contains(stderr, "nightly.0 | err\n") || !strings.Contains(stderr, "nightly.1 ended FAILED: exit code 3: the last line of its stderr: err\n") ||
			!strings.Contains(stderr, "nightly.0 ended FAILED: exit code 3: the last line of its stderr: err\n") {
			t.Errorf("%s: exit code %d, %s", when, code, stderr)
		}
	}
	code := stays.wait()
	check("to the end", stays.stdout.String(), stays.stderr.String(), code)
	stdout, stderr, code := tender(t, d.env, "attach", "framework-1")
	check("after the end", stdout, stderr, code)
	if _, stderr, code := tender(t, d.env, "attach", "nobody"); code != 1 || !strings.Contains(stderr, `no framework is called "nobody"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
