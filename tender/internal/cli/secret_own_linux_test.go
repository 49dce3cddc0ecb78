package cli_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/internal/testing/program"
)

// hired is a framework that launches one task with its own executor.
type hired struct {
	t        *testing.T
	task     api.Task
	launched bool
	statuses chan api.Status
	end      func()
}

func (h *hired) Subscribed(context.Context, *framework.Client) error { return nil }

func (h *hired) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if h.launched {
		return nil
	}
	h.launched = true
	return []api.Answer{api.Launch(offers[0], h.task)}
}

func (h *hired) Update(_ context.Context, status api.Status) error {
	h.statuses <- status // there is room for all statuses of one task
	return nil
}

// hire runs a framework in a role until end is called, or the test ends.
func (c *trusted) hire(name, role string, task api.Task) *hired {
	c.t.Helper()
	c.must("grant", name, "run", "--role", role)
	token := c.must("token", "create", "framework", "--principal", name)
	h := &hired{t: c.t, task: task, statuses: make(chan api.Status, 64)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		config := framework.Config{Masters: c.masters, Name: name, Roles: []api.Role{api.Role(role)}, Token: token, TeardownAtEnd: true}
		ended <- framework.Run(ctx, config, h)
	}()
	over := false
	h.end = func() {
		stop()
		if !over {
			if err := <-ended; err != nil {
				c.t.Errorf("framework %s ended with %v", name, err)
			}
		}
		over = true
	}
	c.t.Cleanup(h.end)
	return h
}

// finished waits until the task has ended well, and returns its message.
func (h *hired) finished() string {
	h.t.Helper()
	for {
		status := hang.Receive(h.t, "the end of task "+string(h.task.ID), nil, h.statuses)
		if !status.State.Terminal() {
			continue
		}
		if status.State != api.TaskFinished {
			h.t.Errorf("task %s is %v: %s %s", h.task.ID, status.State, status.Message, status.Data)
		}
		return string(status.Data)
	}
}

// seen waits for a file that a task makes in its sandbox, and returns the sandbox.
func (h *hired) seen(agent, name string) (sandbox string) {
	h.t.Helper()
	until(h.t, name+" of task "+string(h.task.ID), func() bool {
		found, _ := filepath.Glob(filepath.Join(agent, "sandboxes/*/own/tasks", string(h.task.ID), name)) // fails for bad patterns only
		if len(found) == 1 {
			sandbox = filepath.Dir(found[0])
		}
		return sandbox != ""
	})
	return sandbox
}

// strangerTries are lines of a task that prints nothing if it finds no secret of the task with this sandbox and
// process.
func strangerTries(sandbox, pid string) string {
	return strings.NewReplacer("SANDBOX", sandbox, "PID", pid).Replace(`
		fails() { if "$@" > /dev/null 2>&1; then echo "leak: $*"; fi; }
		fails ls SANDBOX
		fails ls SANDBOX/secrets
		fails cat SANDBOX/secrets/key.pem
		fails cat /proc/PID/environ
		fails cat /proc/PID/cwd/secrets/key.pem
		fails ls /proc/PID/root/
		fails kill -0 PID
		fails grep -qs PASSWORD= /proc/[0-9]*/environ
		true`)
}

// userOf returns the user who owns a folder, which must be a framework's own user.
func userOf(t *testing.T, folder string) string {
	t.Helper()
	info, err := os.Lstat(folder)
	if err != nil {
		t.Fatal(err)
	}
	uid := entry.OwnerOf(info).UID
	if uid < entry.DynamicFirst {
		t.Errorf("%s belongs to %d", folder, uid)
	}
	return strconv.Itoa(uid)
}

// sees says whether a process sees the secret of a task, with the mounts that the process has.
func sees(pid, sandbox string) bool {
	_, err := os.Stat(filepath.Join("/proc", pid, "root", sandbox, "secrets/key.pem"))
	return err == nil
}

// A framework's own executor with namespaces, in a cluster with certificates: its task has its secrets, as the user
// that the framework runs as, and nobody else sees them, whatever happens to the agent. They are gone when the task has
// ended, also if it ended while there was no agent.
func TestSecretsOfAnOwnExecutor(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || entry.Unprivileged() != entry.Dynamic {
		t.Skip("namespaces and users of frameworks take root, and users from 70000 on")
	}
	c := startTrusted(t)
	t.Cleanup(func() { // also if the test fails while a task has files
		for _, place := range mountsBelow(t, c.dir) {
			_ = syscall.Unmount(place, syscall.MNT_DETACH)
		}
	})
	own := program.ForAll(t)
	if err := cmp.Or(os.Chmod(filepath.Dir(c.dir), 0o711), os.Chmod(c.dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	taskOf := func(id api.TaskID, lines string) api.Task {
		executor := &api.Executor{ID: "own", Command: api.Command{Argv: []string{own}}}
		return api.Task{ID: id, Resources: api.Scalars(0.1, 32), Executor: executor, Data: []byte(lines)}
	}
	password, key := newConfidential(t), newConfidential(t)
	setFromInput(t, c, "eng/etl/db", password.text)
	c.must("secret", "set", "eng/etl/tls", "--value-file", key.file)
	data := c.folder("a1")
	agentArgs := []string{"agent", "--data-dir", data, "--http-port", strconv.Itoa(freePort(t)), "--hostname", "a1", "--isolation", "namespaces",
		"--task-user", entry.Dynamic, "--task-users", "nobody", "--resources", "cpus:2;mem:1000;disk:100", "--recovery-timeout", "1m",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0]}
	agent := start(t, c.env, agentArgs...)
	agent.await(`"registered"`)

	const holds = `printf %s "$PASSWORD" | sha256sum; sha256sum < secrets/key.pem; stat -f -c %T secrets; stat -c '%a %u' secrets/key.pem
		id -u; (echo x > secrets/other) 2> /dev/null || echo unchangeable; echo $PPID > executor; mv executor up
		for next in look end; do while [ ! -e $next ]; do sleep 0.05; done; sha256sum < secrets/key.pem; echo > did-$next; done`
	secrets := []api.Secret{{ID: "eng/etl/db", Env: "PASSWORD"}, {ID: "eng/etl/tls", File: "key.pem"}}
	holder := taskOf("holder", holds)
	holder.Secrets = secrets
	etl := c.hire("etl", "eng", holder)
	sandbox := etl.seen(data, "up")
	text, err := os.ReadFile(filepath.Join(sandbox, "up"))
	if err != nil {
		t.Fatal(err)
	}
	executor := strings.TrimSpace(string(text))
	if !sees(executor, sandbox) {
		t.Errorf("the executor does not see its task's secret")
	}
	if said := c.hire("spy", "ops", taskOf("spy", strangerTries(sandbox, executor))).finished(); said != "" {
		t.Errorf("another framework's executor: %s", said)
	}
	if said := c.must("run", "-q", "--role", "eng", "--user", "nobody", "--", "sh", "-c", strangerTries(sandbox, executor)); said != "" {
		t.Errorf("a task of another user: %s", said)
	}
	seen := c.must("get", "tasks", "-o", "json") + c.must("describe", "task", "holder") + c.must("describe", "agent", "a1") +
		c.must("describe", "framework", "etl") + c.must("get", "agents", "-o", "json")
	anyoneFinds(t, c, []confidential{password, key}, seen)

	write := func(name string) {
		if err := os.WriteFile(filepath.Join(sandbox, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := ""
	for _, next := range []string{"look", "end"} { // the task does that while there is no agent
		agent.signal(syscall.SIGKILL)
		agent.wait() // it writes no more
		said += agent.stdout.String() + agent.stderr.String()
		write(next)
		etl.seen(data, "did-"+next)
		agent = start(t, c.env, agentArgs...)
		agent.await(`"registered"`)
		if left := mountsBelow(t, c.dir); next == "look" && (len(left) != 1 || !sees(executor, sandbox)) {
			t.Errorf("while one task has files there are %v, and that its executor sees them is %v", left, sees(executor, sandbox))
		}
	}
	user := userOf(t, sandbox)
	want := strings.Join([]string{password.sum(), key.sum(), "tmpfs 400", user, user, "unchangeable", key.sum(), key.sum()}, " ")
	if got := strings.Join(strings.Fields(strings.ReplaceAll(etl.finished(), "  -\n", "\n")), " "); got != want {
		t.Errorf("the task has said\n%s\nnot\n%s", got, want)
	}
	if left := mountsBelow(t, c.dir); len(left) > 0 || sees(executor, sandbox) {
		t.Errorf("after the task's end there are %v, and that the executor sees them is %v", left, sees(executor, sandbox))
	}
	etl.end()
	agent.signal(syscall.SIGTERM)
	agent.wait()
	said += agent.stdout.String() + agent.stderr.String()
	anyoneFinds(t, c, []confidential{password, key}, said)
}
