package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// three makes a quorum of three masters, all of which have announced their addresses.
func (c *trusted) three() {
	c.t.Helper()
	token := c.must("token", "create", "master", "--uses", "2")
	c.master("m2", token)
	c.master("m3", token)
	until(c.t, "three masters", func() bool {
		found := map[string]bool{}
		for _, m := range get(c.t, c.env, "masters").Items {
			found[m.GrpcAddress] = m.State == "leader" || m.State == "follower"
		}
		return found[c.masters[0]] && found[c.masters[1]] && found[c.masters[2]]
	})
}

// contextOf returns what `tender context` shows somebody.
func contextOf(t *testing.T, env []string) string {
	t.Helper()
	stdout, stderr, code := tender(t, env, "context")
	if code != 0 {
		t.Fatalf("context: exit code %d, %s", code, stderr)
	}
	return stdout
}

// TestAContextOutlivesTheMasterOfItsLogin: a context for which one master was named at its login learns the others, at
// once and whenever there are new ones. It works when that one master is gone.
func TestAContextOutlivesTheMasterOfItsLogin(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	if named := contextOf(t, c.env); !strings.Contains(named, c.masters[0]) {
		t.Fatalf("after the login the context is\n%s", named)
	}
	c.three()
	ann := c.person("ann")
	for who, env := range map[string][]string{"ann, who has only logged in": ann, "the first operator": c.env} {
		for _, address := range c.masters {
			if told := contextOf(t, env); !strings.Contains(told, address) {
				t.Errorf("%s: %s is not in\n%s", who, address, told)
			}
		}
	}
	c.procs[0].signal(syscall.SIGKILL)
	c.procs[0].wait()
	until(t, "ann goes on without the master of her login", func() bool {
		_, _, code := tender(t, ann, "get", "agents")
		return code == 0
	})
	c.must("raft", "remove", "m1")
	until(t, "the one that was removed is in the context no more", func() bool {
		c.must("get", "agents")
		return !strings.Contains(contextOf(t, c.env), c.masters[0])
	})
}

// TestAnAgentThatWasAwayTooLongComesBack: an agent whose certificate has expired comes back with a token and keeps its
// ID. Its task has gone on.
func TestAnAgentThatWasAwayTooLongComesBack(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	args := func(more ...string) []string {
		return append([]string{"agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:500;disk:100",
			"--recovery-timeout", "1m", "--master", c.masters[0]}, more...)
	}
	used := c.must("token", "create", "agent")
	agent := start(t, c.env, args("--join", used)...)
	agent.await(`"registered"`)
	was := get(t, c.env, "agents").Items
	gate := c.folder("gate")
	run := start(t, c.env, "run", "--name", "long", "--", "sh", "-c", "echo up; while [ ! -e "+gate+" ]; do sleep 0.05; done; echo done")
	run.await("up")
	agent.signal(syscall.SIGTERM)
	agent.await("agent has ended")
	agent.wait()
	ended := c.ends(filepath.Join(c.folder("a1"), "certificate.pem"))

	for want, more := range map[string][]string{
		"start it once more with --join FILE": nil,
		"used up":                             {"--join", used},
	} {
		_, stderr, code := tender(t, c.env, args(more...)...)
		if code != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, ended) {
			t.Errorf("without a token that lets it in: exit code %d, %q; want %q and %s", code, stderr, want, ended)
		}
	}
	back := start(t, c.env, args("--join", c.must("token", "create", "agent"))...)
	back.await(`"joined"`)
	back.await(`"registered"`)
	if now := get(t, c.env, "agents").Items; len(was) != 1 || len(now) != 1 || now[0].ID != was[0].ID {
		t.Errorf("the agents were %+v and are %+v", was, now)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await("done")
	if code := run.wait(); code != 0 || strings.Contains(run.stderr.String(), "LOST") {
		t.Errorf("the run: exit code %d, %s", code, &run.stderr)
	}
}

// ends lets the certificate in a file expire, as if its owner had been away for long, and returns when it did.
func (c *trusted) ends(file string) string {
	c.t.Helper()
	pass, err := trust.ReadPass(file)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := trust.ReadKey(c.folder("m1"))
	if err != nil {
		c.t.Fatal(err)
	}
	authority, err := key.Authority()
	if err != nil {
		c.t.Fatal(err)
	}
	old, err := authority.Issue(pass.Identity(), time.Now().Add(-40*24*time.Hour))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := trust.WritePass(file, old); err != nil {
		c.t.Fatal(err)
	}
	return old.Ends().Format(time.RFC3339)
}

// TestAMasterOfAnAuthorityThatCountsNoMoreComesBack: while it was away another authority has followed; it comes back
// with a token. A start that finds a port taken changes neither the key in its folder nor the token's uses.
func TestAMasterOfAnAuthorityThatCountsNoMoreComesBack(t *testing.T) {
	t.Parallel()
	const life = "1m" // so that two authorities overlap only for some seconds
	c := startTrustedWith(t, "--certificate-life", life, "--agent-certificate-life", life)
	c.three()
	away := c.procs[1]
	away.signal(syscall.SIGTERM)
	away.wait()
	keyFile := filepath.Join(c.folder("m2"), trust.KeyFile)
	key := func() []byte {
		text, err := os.ReadFile(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := key()
	c.must("ca", "rotate", "--overlap", "10s")
	c.must("login", "--master", c.masters[0]+","+c.masters[2], "--join", c.must("token", "create", "operator", "--principal", "ann"))
	until(t, "the former authority counts no more", func() bool { return c.authority().FormerDigest == "" })

	args := []string{"master", "--data-dir", c.folder("m2"), "--master", c.masters[0], "--join", c.must("token", "create", "master")}
	_, stderr, code := tender(t, c.env, append(slices.Clone(args), "--id", "m4")...)
	if code != 1 || !strings.Contains(stderr, "the folder is master m2's, not m4's") {
		t.Errorf("by another name than its folder's: exit code %d, %q", code, stderr)
	}
	_, taken, _ := strings.Cut(c.http[0], ":")
	_, stderr, code = tender(t, c.env, append(slices.Clone(args), "--bind", "127.0.0.1", "--grpc-port", strconv.Itoa(freePort(t)), "--http-port", taken, "--raft-port", strconv.Itoa(freePort(t)))...)
	if code != 1 || !strings.Contains(stderr, "port is in use") {
		t.Errorf("at a taken port: exit code %d, %q", code, stderr)
	}
	if !bytes.Equal(key(), before) {
		t.Error("a start that was refused has changed the key")
	}
	start(t, c.env, args...)
	until(t, "m2 follows again", func() bool {
		for _, m := range get(t, c.env, "masters").Items {
			if m.ID == "m2" && m.State == "follower" {
				return true
			}
		}
		return false
	})
	if bytes.Equal(key(), before) {
		t.Error("m2 has the key of the former authority still")
	}
	until(t, "m2 leads", func() bool {
		_, _, code := tender(t, c.env, "raft", "transfer-leader", "m2")
		return code == 0
	})
	c.must("token", "create", "agent")
}
