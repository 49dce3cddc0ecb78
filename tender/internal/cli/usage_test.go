package cli_test

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// used is the one row of `tender usage --by role` that somebody sees; false: it can't be asked for now, or there is none.
func used(t *testing.T, env []string) (row struct {
	Role      string
	Allocated map[string]float64
	Ended     map[string]int
}, seen bool) {
	t.Helper()
	stdout, _, code := tender(t, env, "usage", "-o", "json")
	var answer struct{ Items []json.RawMessage }
	if code != 0 || json.Unmarshal([]byte(stdout), &answer) != nil || len(answer.Items) != 1 {
		return row, false
	}
	if err := json.Unmarshal(answer.Items[0], &row); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return row, true
}

// TestUsageIsKept: R80. All masters are killed at once, then one is restored from a snapshot: each time the next leader
// knows who has held how much, of a task that runs and of those that have ended, and counts none of them again.
func TestUsageIsKept(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	c.three()
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:500;disk:100",
		"--join", c.must("token", "create", "agent"), "--master", strings.Join(c.masters, ","))
	c.must("grant", "bob", "view", "--role", "eng")
	bob := c.person("bob")
	for _, script := range []string{"exit 3", "exit 0"} {
		if _, stderr, code := tender(t, c.env, "run", "--cpus", "0.5", "--", "sh", "-c", script); code != 0 && code != 3 {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
	}
	c.must("run", "--detach", "--cpus", "0.25", "--", "sleep", "3600")
	ended := map[string]int{"FINISHED": 1, "FAILED": 1}
	before, _ := used(t, c.env)
	if before.Role != "default" || !maps.Equal(before.Ended, ended) || before.Allocated["cpus"] == 0 {
		t.Fatalf("before anything happens it is %+v", before)
	}
	check := func(when string) {
		t.Helper()
		until(t, "the figures are there "+when, func() bool {
			now, is := used(t, c.env)
			if !is || len(now.Ended) < 2 || now.Allocated["cpus"] <= before.Allocated["cpus"] {
				return false
			}
			if !maps.Equal(now.Ended, ended) {
				t.Fatalf("%s %v have ended", when, now.Ended)
			}
			before = now
			return true
		})
	}
	check("while it runs")
	c.killAll()
	check("after all masters were killed")
	if text := c.must("usage", "--by", "principal,framework", "-o", "csv"); strings.Count(text, ",admin,framework-") != 3 {
		t.Errorf("told apart by framework:\n%s", text)
	}
	if stdout, stderr, code := tender(t, bob, "usage"); code != 0 || strings.Contains(stdout, "default") {
		t.Errorf("bob, who may view role eng, sees %q, exit code %d, %s", stdout, code, stderr)
	}
	c.restore()
	check("after the restore")
}
