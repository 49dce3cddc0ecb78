package cli_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// confidential is a value that may be found only in the task that it is for.
type confidential struct{ text, file string }

// newConfidential makes a random value and writes it into a file outside of the cluster.
func newConfidential(t *testing.T) confidential {
	t.Helper()
	c := confidential{text: rand.Text() + rand.Text(), file: filepath.Join(t.TempDir(), "value")}
	if err := os.WriteFile(c.file, []byte(c.text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c confidential) sum() string {
	sum := sha256.Sum256([]byte(c.text))
	return hex.EncodeToString(sum[:])
}

// in says whether a text contains the value, as it is or in base64 as JSON has bytes.
func (c confidential) in(text []byte) bool {
	return bytes.Contains(text, []byte(c.text)) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(c.text))))
}

// TestSecretsReachTheirTaskAndNobodyElse uses a master and an agent as real processes. The task proves by checksums
// what it was given, so that its output does not contain the values.
func TestSecretsReachTheirTaskAndNobodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a folder in memory for a task takes root")
	}
	c := startTrusted(t)
	t.Cleanup(func() { // also if the test fails while a task has files
		for _, place := range mountsBelow(t, c.dir) {
			_ = syscall.Unmount(place, syscall.MNT_DETACH)
		}
	})
	password, key := newConfidential(t), newConfidential(t)
	theValueIsNoArgument(t, c)
	c.must("secret", "set", "eng/etl/tls", "--value-file", key.file)
	setFromInput(t, c, "eng/etl/db", password.text)
	agentArgs := []string{"agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--hostname", "a1",
		"--resources", "cpus:1;mem:500;disk:100", "--recovery-timeout", "1m", "--join", c.must("token", "create", "agent"), "--master", c.masters[0]}
	agent := start(t, c.env, agentArgs...)
	agent.await(`"registered"`)
	aTaskOfAnotherRoleGetsNone(t, c)

	gate, end := c.folder("gate"), c.folder("end")
	run := start(t, c.env, "run", "--name", "etl", "--role", "eng", "--secret", "PASSWORD=eng/etl/db", "--secret-file", "key.pem=eng/etl/tls", "--", "sh", "-c",
		`printf %s "$PASSWORD" | sha256sum; sha256sum < secrets/key.pem; stat -f -c %T secrets; stat -c '%a %u' secrets/key.pem; `+
			`echo x > secrets/other || echo unchangeable; echo up; while [ ! -e `+gate+` ]; do sleep 0.05; done; `+
			`sha256sum < secrets/key.pem; echo again; while [ ! -e `+end+` ]; do sleep 0.05; done`)
	run.await(password.sum())
	run.await(key.sum())
	run.await("tmpfs")
	run.await("400 " + strconv.Itoa(os.Geteuid()))
	run.await("unchangeable")
	run.await("up")
	task := c.must("get", "tasks", "-o", "json") + c.must("describe", "task", "etl.0") + c.must("describe", "agent", "a1") +
		c.must("describe", "framework", "etl") + c.must("secret", "list") + c.must("secret", "list", "-o", "json") + c.must("get", "secrets", "-o", "wide") + c.must("describe", "secret", "eng/etl/db")
	if !strings.Contains(task, "eng/etl/db in $PASSWORD") || !strings.Contains(task, "eng/etl/tls in secrets/key.pem") {
		t.Errorf("the task does not say which secrets it names:\n%s", task)
	}
	if text, _, code := tender(t, c.env, "cp", "etl.0:secrets/key.pem", filepath.Join(t.TempDir(), "copy")); code == 0 {
		t.Errorf("the file is copied out of the task: %s", text)
	}
	c.must("raft", "snapshot", "save", c.folder("snapshot"))
	anyoneFinds(t, c, []confidential{password, key}, task)

	// The agent is killed and started again: the task keeps its secrets.
	agent.signal(syscall.SIGKILL)
	agent.wait()
	agent = start(t, c.env, agentArgs...)
	agent.await(`"registered"`)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run.await(key.sum())
	run.await("again")
	if left := mountsBelow(t, c.dir); len(left) != 1 {
		t.Errorf("while one task has files there are %v", left)
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run.wait(); code != 0 {
		t.Errorf("the run: exit code %d, %s", code, &run.stderr)
	}
	until(t, "the files go with their task", func() bool { return len(mountsBelow(t, c.dir)) == 0 })

	c.must("secret", "rm", "eng/etl/db")
	_, stderr, code := tender(t, c.env, "run", "--role", "eng", "--secret", "PASSWORD=eng/etl/db", "--", "true")
	if code == 0 || !strings.Contains(stderr, "SECRET_UNAVAILABLE") || !strings.Contains(stderr, "there is no secret eng/etl/db") {
		t.Errorf("a secret that was removed: exit code %d, %q", code, stderr)
	}
	audited, err := os.ReadFile(filepath.Join(c.folder("m1"), "audit.log"))
	if err != nil || !strings.Contains(string(audited), "SetSecret") || !strings.Contains(string(audited), "RemoveSecret") {
		t.Errorf("what was done to secrets is not in the audit log: %v\n%s", err, audited)
	}
	agent.signal(syscall.SIGTERM)
	agent.wait() // it writes no more
	anyoneFinds(t, c, []confidential{password, key}, agent.stdout.String()+agent.stderr.String()+run.stdout.String()+run.stderr.String())
}

// theValueIsNoArgument: a value on the command line is refused, because everybody on the machine can see it there.
func theValueIsNoArgument(t *testing.T, c *trusted) {
	t.Helper()
	_, stderr, code := tender(t, c.env, "secret", "set", "eng/etl/db", "hunter2")
	if code != 2 || !strings.Contains(stderr, "can be seen by everybody") || strings.Contains(stderr, "hunter2") {
		t.Errorf("a value as an argument: exit code %d, %q", code, stderr)
	}
}

// setFromInput sets a secret to what comes on standard input.
func setFromInput(t *testing.T, c *trusted, name, value string) {
	t.Helper()
	command := exec.Command(needsBinary(t), "secret", "set", name)
	command.Env = append(os.Environ(), c.env...)
	command.Stdin = strings.NewReader(value)
	if said, err := command.CombinedOutput(); err != nil || !strings.Contains(string(said), "is set") {
		t.Fatalf("secret set: %v: %s", err, said)
	}
}

func aTaskOfAnotherRoleGetsNone(t *testing.T, c *trusted) {
	t.Helper()
	_, stderr, code := tender(t, c.env, "run", "--role", "ops", "--secret", "PASSWORD=eng/etl/db", "--", "true")
	if code == 0 || !strings.Contains(stderr, "TASK_UNAUTHORIZED") || !strings.Contains(stderr, "may not use secret eng/etl/db") {
		t.Errorf("a framework of another role: exit code %d, %q", code, stderr)
	}
}

// anyoneFinds looks for the values in everything that the cluster has written, and in outputs.
func anyoneFinds(t *testing.T, c *trusted, values []confidential, said string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "secrets" && len(mountsBelow(t, path)) > 0:
			return fs.SkipDir // it is in memory, for the task
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		files++
		for _, value := range values {
			if value.in(text) {
				t.Errorf("%s holds the value of a secret", path)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files were looked at, %v", files, err)
	}
	for _, value := range values {
		if value.in([]byte(said)) {
			t.Errorf("the value of a secret was said:\n%s", said)
		}
	}
}

// mountsBelow returns the secrets folders that are mounted at or below a path.
func mountsBelow(t *testing.T, path string) (places []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.Contains(line, " - tmpfs tender-secrets ") && strings.HasPrefix(fields[4]+"/", path+"/") {
			places = append(places, fields[4])
		}
	}
	return places
}
