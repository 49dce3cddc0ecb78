package cli_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/trust"
)

// TestTokensGoFromFileToFile: a token is written into a new file that only its owner can read, and never over another
// file. An agent joins by it, and no command line shows it.
func TestTokensGoFromFileToFile(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	name := c.folder("agents.token")
	said := c.must("token", "create", "agent", "--uses", "2", "-o", name)
	text, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(text), trust.TokenPrefix) || strings.Contains(said, trust.TokenPrefix) {
		t.Fatalf("the file has %q, %v, and the command said %q", text, err, said)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	if _, stderr, code := tender(t, c.env, "token", "create", "agent", "-o", name); code != 2 || !strings.Contains(stderr, "is there already") {
		t.Errorf("a second token for that file: exit code %d, %q", code, stderr)
	}
	if again, err := os.ReadFile(name); err != nil || string(again) != string(text) {
		t.Errorf("the file was overwritten: %v", err)
	}
	none := c.folder("none.token")
	if _, stderr, code := tender(t, c.env, "token", "create", "framework", "--principal", "bad", "--role", "/", "-o", none); code == 0 {
		t.Errorf("a token for an impossible role was made: %q", stderr)
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("the file of a token that was refused is there: %v", err)
	}

	agent := func(name, join string) *proc {
		return start(t, c.env, "agent", "--data-dir", c.folder(name), "--http-port", strconv.Itoa(freePort(t)), "--hostname", name,
			"--resources", "cpus:1;mem:500;disk:100", "--join="+join, "--master", c.masters[0])
	}
	agent("a1", name).await(`"registered"`)
	typed := agent("a2", strings.TrimSpace(string(text)))
	typed.await("the token on the command line is overwritten")
	typed.await(`"registered"`)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", typed.cmd.Process.Pid))
	if err != nil || strings.Contains(string(line), trust.TokenPrefix) || !strings.Contains(string(line), "--join=") || !strings.Contains(string(line), c.masters[0]) {
		t.Errorf("the command line reads %q, %v", line, err)
	}
}

// TestATokenMayBeForALittleOnly: what --may says is all that the principal may do, and who has more is refused.
func TestATokenMayBeForALittleOnly(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	file := c.folder("carl.token")
	c.must("token", "create", "operator", "--principal", "carl", "--may", "operate,view", "--role", "eng", "-o", file)
	carl := []string{"XDG_CONFIG_HOME=" + c.folder("carl"), "TENDER_MASTER=", "TENDER_TOKEN="}
	c.logIn(carl, file)
	if me, _, _ := tender(t, carl, "whoami"); !strings.Contains(me, "operate --role eng") || !strings.Contains(me, "view --role eng") || strings.Contains(me, "admin") {
		t.Errorf("carl is\n%s", me)
	}
	c.must("token", "create", "operator", "--principal", "ann", "-o", c.folder("ann.token"))
	if _, stderr, code := tender(t, c.env, "token", "create", "operator", "--principal", "ann", "--may", "view"); code == 0 || !strings.Contains(stderr, "it may already admin") ||
		!strings.Contains(stderr, "tender revoke ann admin") {
		t.Errorf("ann is an admin: exit code %d, %q", code, stderr)
	}
	if said := c.must("grant", "ann", "operate", "--role", "eng"); !strings.Contains(said, "ann may operate --role eng; it also may, as before: admin") {
		t.Errorf("grant said %q", said)
	}
	if said := c.must("revoke", "ann", "admin"); !strings.Contains(said, "it still may: operate --role eng") {
		t.Errorf("revoke said %q", said)
	}
	if _, stderr, code := tender(t, c.env, "token", "create", "operator", "--principal", "eve", "--role", "eng"); code != 2 || !strings.Contains(stderr, "--may") {
		t.Errorf("a role for everything: exit code %d, %q", code, stderr)
	}
}

// TestAnExportedMasterFoundsAllTheSame: TENDER_MASTER is for commands. A first master that finds it in its environment
// founds a cluster, and says so.
func TestAnExportedMasterFoundsAllTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, []string{"TENDER_MASTER=127.0.0.1:1"}, "master", "--id", "m1", "--data-dir", dir, "--http-port", "0",
		"--grpc-port", strconv.Itoa(freePort(t)), "--raft-port", strconv.Itoa(freePort(t)))
	first.await("TENDER_MASTER (127.0.0.1:1) does not count here")
	first.await(`"leading"`)
	if _, err := os.Stat(dir + "/" + trust.KeyFile); err != nil {
		t.Error(err)
	}
}
