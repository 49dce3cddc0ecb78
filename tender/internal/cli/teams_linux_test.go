package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// member logs a person in who may do these things in a role, and returns that person's environment.
func (c *trusted) member(name, role string, may ...string) []string {
	c.t.Helper()
	args := []string{"token", "create", "operator", "--principal", name, "--role", role}
	for _, verb := range may {
		args = append(args, "--may", verb)
	}
	token := c.must(args...)
	env := []string{"XDG_CONFIG_HOME=" + c.folder(name), "TENDER_MASTER=", "TENDER_TOKEN="}
	c.logIn(env, token)
	return append(env, "TENDER_MASTER="+strings.Join(c.masters, ","))
}

// write writes a file and returns its path.
func (c *trusted) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// jobs starts a job manager.
func (c *trusted) jobs(token string, args ...string) *proc {
	c.t.Helper()
	return launch(c.t, []string{"TENDER_TOKEN=" + token, "TENDER_MASTER=" + strings.Join(c.masters, ",")}, true, append([]string{"jobs"}, args...))
}

// as runs a command as somebody, and checks its exit code.
func (c *trusted) as(env []string, wanted int, args ...string) string {
	c.t.Helper()
	stdout, stderr, code := tender(c.t, env, args...)
	if code != wanted {
		c.t.Errorf("%v: exit code %d, not %d: %s%s", args, code, wanted, stdout, stderr)
	}
	return stdout + stderr
}

// TestTeams: two people of two roles, each with a quota, share a job manager. Each sees the jobs of his own role alone,
// the quota of one holds the other up in nothing, a task of one reaches nothing of the other's, and roles and owners
// outlive the leader and the manager, killed before anything has run. A second manager serves one of the roles beside
// the first. (R60, R61)
func TestTeams(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || entry.Unprivileged() != entry.Dynamic {
		t.Skip("users of owners take root, and users from 70000 on")
	}
	c := startTrusted(t)
	for folder := c.dir; folder != os.TempDir(); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	token := c.must("token", "create", "master", "--uses", "2")
	c.master("m2", token)
	c.master("m3", token)
	until(t, "three masters", func() bool { return len(get(t, c.env, "masters", "--state", "follower").Items) == 2 })
	ann, bob := c.member("ann", "eng", "run"), c.member("bob", "ops", "run")
	tom := c.member("tom", "eng", "list-agents")

	if told := c.as(ann, 1, "job", "list"); !strings.Contains(told, "no job manager runs") {
		t.Errorf("without a manager ann is told %q", told)
	}
	if told := c.as(tom, 1, "job", "list"); !strings.Contains(told, "'list-jobs'") {
		t.Errorf("who has no right to it is told %q", told)
	}
	token = c.must("token", "create", "framework", "--principal", "jobs", "--role", "default")
	c.must("grant", "jobs", "run", "--role", "ops")
	first := c.jobs(token)
	until(t, "the manager answers", func() bool { _, _, code := tender(t, c.env, "job", "list"); return code == 0 })

	file := func(name, role string, count int) string {
		variable := "OTHER"
		if name == "a" {
			variable = "PASSWORD"
		}
		return c.write(name+".toml", fmt.Sprintf("name = %q\ntype = \"service\"\nrole = %q\nservice.count = %d\n[task]\ncpus = 0.1\n"+
			"command = 'echo $$ > pid; id -u; exec sleep 1000'\nenv = { %s = \"secret\" }\n", name, role, count, variable))
	}
	if told := c.as(ann, 1, "job", "submit", file("a", "eng/web", 2)); !strings.Contains(told, "tender grant jobs run --role eng/web") {
		t.Errorf("a role in which the manager may not run: %q", told)
	}
	c.must("grant", "jobs", "run", "--role", "eng")
	until(t, "the manager is back with its new rights", func() bool {
		_, _, code := tender(t, ann, "job", "submit", file("a", "eng/web", 2))
		return code == 0
	})
	c.as(bob, 0, "job", "submit", file("b", "ops", 2))
	c.must("quota", "eng", "--limit", "cpus:0.1")
	if told := c.as(bob, 1, "job", "submit", file("c", "eng", 1)); !strings.Contains(told, "on role eng; an operator gives it: tender grant bob run --role eng") {
		t.Errorf("bob submits a job of eng and is told %q", told)
	}
	c.jobs(token) // it stands by
	first.signal(syscall.SIGKILL)
	c.procs[0].told.Store(true)
	c.procs[0].signal(syscall.SIGKILL)
	c.masters = c.masters[1:] // for who comes now
	agent := c.must("token", "create", "agent")
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--task-user", "dynamic", "--resources", "cpus:2;mem:500;disk:100",
		"--http-port", fmt.Sprint(freePort(t)), "--join", agent, "--master", strings.Join(c.masters, ","))
	running := func(env []string, name string) string {
		stdout, _, _ := tender(t, env, "job", "list", "--prefix", name)
		for line := range strings.Lines(stdout) {
			if words := strings.Fields(line); words[0] == name { // NAME ROLE OWNER TYPE PHASE VERSION TASKS RUNNING
				return strings.Join(append(words[1:3], words[7]), " ")
			}
		}
		return stdout
	}
	until(t, "one task of a, and all of b", func() bool { return running(c.env, "a") == "eng/web ann 1" && running(c.env, "b") == "ops bob 2" })

	if list := c.as(bob, 0, "job", "list"); strings.Contains(list, "ann") || !strings.Contains(list, "bob") {
		t.Errorf("bob sees\n%s", list)
	}
	if list := c.as(c.member("eve", "sales", "view"), 0, "job", "list"); strings.Contains(list, "eng") {
		t.Errorf("eve sees\n%s", list)
	}
	for _, args := range [][]string{{"job", "status", "a"}, {"job", "logs", "a"}, {"job", "stop", "a"}, {"job", "history", "a"}, {"job", "update", file("a", "ops", 1)}} {
		if told := c.as(bob, 1, args...); !strings.Contains(told, "on role eng/web") {
			t.Errorf("bob: %v: %q", args, told)
		}
	}
	found, err := filepath.Glob(filepath.Join(c.folder("a1"), "sandboxes/*/command/tasks/a.*/pid"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	task := filepath.Base(filepath.Dir(found[0]))
	if out := c.as(ann, 0, "exec", task, "--", "cat", "pid"); strings.TrimSpace(out) == "" {
		t.Error("ann looks into her task and finds nothing")
	}
	c.as(bob, 1, "exec", task, "--", "cat", "pid")
	byName := "jobs/" + task // the manager's framework, which neither of them may list
	if hers, told := c.as(ann, 0, "describe", "task", byName), c.as(bob, 1, "describe", "task", byName); !strings.Contains(hers, task) || !strings.Contains(told, "no task is called") {
		t.Errorf("of %s ann is told %q and bob %q", byName, hers, told)
	}
	c.as(ann, 0, "exec", byName, "--", "true")
	c.as(bob, 1, "kill", byName)
	pid, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	spy := "name = \"spy\"\ntype = \"batch\"\nrole = \"ops\"\ntask.command = '''" + strangerTries(filepath.Dir(found[0]), strings.TrimSpace(string(pid))) + "'''\n"
	c.as(bob, 0, "job", "run", c.write("spy.toml", spy))
	if out := c.as(bob, 0, "job", "logs", "spy"); strings.Contains(out, "leak") {
		t.Errorf("bob's task reaches ann's: %s", out)
	}
	mine, hers := c.as(bob, 0, "job", "logs", "b"), c.as(ann, 0, "job", "logs", "a")
	if mine == hers || len(mine) != len("70000\n") || len(hers) != len("70000\n") {
		t.Errorf("bob's tasks run as %s, and ann's as %s", mine, hers)
	}
	c.must("quota", "eng", "--limit", "cpus:1")
	until(t, "all of a", func() bool { return running(ann, "a") == "eng/web ann 2" })

	c.jobs(c.must("token", "create", "framework", "--principal", "eng-jobs", "--role", "eng"), "--name", "eng-jobs", "--role", "eng")
	until(t, "the other manager answers", func() bool { _, _, code := tender(t, ann, "job", "list", "--manager", "eng-jobs"); return code == 0 })
	c.as(ann, 0, "job", "submit", file("a2", "eng/web", 1))
	c.as(ann, 0, "job", "status", "a2", "--manager", "eng")
	if told := c.as(ann, 1, "job", "status", "a2"); !strings.Contains(told, "no job has this name") {
		t.Errorf("the first manager knows the job of the second: %q", told)
	}
	if told := c.as(ann, 1, "job", "list", "--manager", "nobody"); !strings.Contains(told, `no job manager is called "nobody"`) {
		t.Errorf("a manager that is not there: %q", told)
	}
}
