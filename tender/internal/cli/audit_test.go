package cli_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// change is a change in the output of `tender audit -o json`.
type change struct {
	At                     time.Time
	Who, Call, Result, Why string
	Objects                []string
	MasterID               string `json:"master_id"`
}

// audited returns what `tender audit` shows somebody, and its stderr.
func audited(t *testing.T, env []string, args ...string) (changes []change, stderr string) {
	t.Helper()
	stdout, stderr, code := tender(t, env, append([]string{"audit", "-o", "json"}, args...)...)
	var answer struct{ Items []change }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != 0 {
		t.Fatalf("audit: exit code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	return answer.Items, stderr
}

// count returns how many of the changes are such calls.
func count(changes []change, call string) (n int) {
	for _, c := range changes {
		if c.Call == call {
			n++
		}
	}
	return n
}

// has says whether one of the changes was about this object, at this master, with this result.
func has(changes []change, master, object, result string) bool {
	return slices.ContainsFunc(changes, func(c change) bool {
		return c.MasterID == master && slices.Contains(c.Objects, object) && c.Result == result
	})
}

// TestTheAuditLogIsTold: all masters of a real quorum answer together, followers too. One that is down is named, and
// what it knew can be seen again when it is back after kill -9. Somebody who may not see it gets an error.
func TestTheAuditLogIsTold(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	c.three()
	c.must("grant", "bob", "view")
	bob := c.person("bob")
	until(t, "m2 leads", func() bool {
		_, _, code := tender(t, c.env, "raft", "transfer-leader", "m2")
		return code == 0
	})
	c.procs[1].await(`"leading"`)
	if _, stderr, code := tender(t, bob, "grant", "bob", "admin"); code != 1 || !strings.Contains(stderr, "bob") {
		t.Fatalf("bob grants himself everything: exit code %d, %s", code, stderr)
	}
	c.must("weight", "eng", "2")

	all, stderr := audited(t, c.env, "--since", "1h")
	inOrder := slices.IsSortedFunc(all, func(a, b change) int { return a.At.Compare(b.At) })
	if !inOrder || !has(all, "m1", "principal/bob", "ok") || !has(all, "m2", "role/eng", "ok") || stderr != "" {
		t.Errorf("all masters tell, in order: %v, %+v, %s", inOrder, all, stderr)
	}
	if slices.ContainsFunc(all, func(c change) bool { return c.Result == "not leader" }) {
		t.Errorf("what followers have sent on is told too: %+v", all)
	}
	for _, args := range [][]string{{"--denied"}, {"--by", "bob"}} {
		if found, _ := audited(t, c.env, args...); len(found) == 0 ||
			slices.ContainsFunc(found, func(c change) bool { return c.Who != "person bob" || c.Result != "denied" }) {
			t.Errorf("%v: %+v", args, found)
		}
	}
	if found, _ := audited(t, c.env, "--on", "role/eng"); len(found) != 1 || found[0].Call != "/tender.v1.OperatorService/SetRole" {
		t.Errorf("what was about eng: %+v", found)
	}
	if stdout, stderr, _ := tender(t, c.env, "audit", "--limit", "1"); strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, "role/eng") || !strings.Contains(stderr, "older ones") {
		t.Errorf("the newest alone:\n%s%s", stdout, stderr)
	}
	if wide := c.must("audit", "--on", "principal/bob", "-o", "wide"); !strings.Contains(wide, `"principal":"bob"`) {
		t.Errorf("with its requests:\n%s", wide)
	}
	if stdout, stderr, code := tender(t, bob, "audit"); code != 1 || stdout != "" || !strings.Contains(stderr, "tender grant bob list-changes") {
		t.Errorf("bob, who may view: exit code %d, %q, %s", code, stdout, stderr)
	}

	c.must("token", "create", "agent")
	var tokens struct{ Items []struct{ ID, By string } }
	if err := json.Unmarshal([]byte(c.must("token", "list", "-o", "json")), &tokens); err != nil || len(tokens.Items) == 0 {
		t.Fatalf("tokens: %+v, %v", tokens, err)
	}
	made := 0
	for _, token := range tokens.Items {
		found, _ := audited(t, c.env, "--on", "token/"+token.ID)
		made += len(found)
	}
	if asked, _ := audited(t, c.env); made < 1 || made != count(asked, "/tender.v1.OperatorService/CreateToken") {
		t.Errorf("%d makings of tokens are found by their IDs, of %+v", made, asked)
	}
	if tried, _ := audited(t, c.env, "--on", "principal/bob", "--denied"); len(tried) != 1 {
		t.Errorf("what bob has tried is told as %+v", tried)
	}
	all, _ = audited(t, c.env)

	c.procs[2].signal(syscall.SIGKILL)
	c.procs[2].wait()
	some, stderr := audited(t, c.env)
	if len(some) != len(all) || !strings.Contains(stderr, "no answer from m3 (connection refused); what it was asked is missing") {
		t.Errorf("with m3 down: %d of %d changes, %s", len(some), len(all), stderr)
	}
	c.procs[1].signal(syscall.SIGKILL)
	c.procs[1].wait()
	some, stderr = audited(t, c.env) // nobody leads
	if !has(some, "m1", "principal/bob", "ok") || has(some, "m2", "role/eng", "ok") || !strings.Contains(stderr, "m2 (connection refused), m3 (connection refused)") {
		t.Errorf("with m1 alone: %+v, %s", some, stderr)
	}
	start(t, c.env, "master", "--data-dir", c.folder("m2"))
	until(t, "m2 tells what it knew", func() bool {
		stdout, _, code := tender(t, c.env, "audit", "-o", "json", "--on", "role/eng")
		return code == 0 && strings.Contains(stdout, `"m2"`)
	})
	c.procs[0].signal(syscall.SIGKILL)
	c.procs[0].wait()
	if _, stderr, code := tender(t, c.env, "audit", "--on", "bob"); code != 2 || !strings.Contains(stderr, "KIND/NAME") {
		t.Errorf("what is no object: exit code %d, %s", code, stderr)
	}
}

// TestAnInsecureClusterTellsItsChanges: anybody may see them.
func TestAnInsecureClusterTellsItsChanges(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	_, port, _ := strings.Cut(address, ":")
	env := []string{"TENDER_MASTER=" + address, "XDG_CONFIG_HOME=" + t.TempDir()}
	open := start(t, env, "master", "--data-dir", filepath.Join(t.TempDir(), "m1"), "--insecure", "--http-port", "0", "--grpc-port", port,
		"--raft-port", strconv.Itoa(freePort(t)))
	open.await(`"leading"`)
	if _, stderr, code := tender(t, env, "weight", "eng", "2"); code != 0 {
		t.Fatalf("role set: exit code %d, %s", code, stderr)
	}
	if found, stderr := audited(t, env, "--by", "anybody"); len(found) != 1 || found[0].Who != "anybody" || !has(found, found[0].MasterID, "role/eng", "ok") {
		t.Errorf("it tells %+v, %s", found, stderr)
	}
}
