package cli_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestReplay: a journal of dev is replayed exactly by the policy that has written it, and by another one for
// comparison. A policy in another process that can't be reached is reported.
func TestReplay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "allocator.journal")
	d := startDev(t, "--allocator-journal", file)
	if _, stderr, code := tender(t, d.env, "run", "-n", "3", "--role", "web", "--", "true"); code != 0 {
		t.Fatalf("run: exit code %d, %s", code, stderr)
	}
	d.signal(syscall.SIGINT)
	d.wait()
	stdout, stderr, code := tender(t, nil, "allocator", "replay", "--policy", "fairshare,priority", file)
	if code != 0 {
		t.Fatalf("replay: exit code %d, %s", code, stderr)
	}
	if !regexp.MustCompile(`recorded \(fairshare\) +fairshare +priority\n`).MatchString(stdout) ||
		!regexp.MustCompile(`tasks started +3 +3 +3\n`).MatchString(stdout) {
		t.Errorf("three tasks ran, but it prints\n%s", stdout)
	}
	same := regexp.MustCompile(`exactly the same again: (\d+) of (\d+) answers are identical`).FindStringSubmatch(stdout)
	if same == nil || same[1] != same[2] || same[1] == "0" {
		t.Errorf("the live policy answers otherwise: %q", same)
	}
	_, stderr, code = tender(t, nil, "allocator", "replay", "--policy", "remote:127.0.0.1:1", file)
	if code == 0 || !strings.Contains(stderr, "the allocator at 127.0.0.1:1 is away") {
		t.Errorf("of a policy that is not there: exit code %d, %q", code, stderr)
	}
}
