package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// happened are the events in the output of `tender events`.
type happened struct {
	Kind, Name, What, Why, By string
	Cursor                    struct {
		Term   struct{ Epoch, Number uint64 }
		Number uint64
	}
}

// events returns what `tender events` shows somebody, and its stderr.
func events(t *testing.T, env []string, args ...string) []happened {
	t.Helper()
	stdout, stderr, code := tender(t, env, append([]string{"events", "-o", "json", "--limit", "0"}, args...)...)
	var answer struct{ Items []happened }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != 0 {
		t.Fatalf("events %v: exit code %d, %v, %q, %s", args, code, err, stdout, stderr)
	}
	return answer.Items
}

func tells(all []happened, kind, name, what string) bool {
	return slices.ContainsFunc(all, func(e happened) bool { return e.Kind == kind && e.Name == name && e.What == what })
}

// TestThePastIsKept: R70. All masters are killed at once; what had happened before is there when they are back, also the
// way of a task whose framework is gone. A person sees of it what he sees in the lists. A cluster that is restored from
// a snapshot keeps it with a copied folder.
func TestThePastIsKept(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	c.three()
	token := c.must("token", "create", "agent")
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--resources", "cpus:1;mem:500;disk:100",
		"--join", token, "--master", strings.Join(c.masters, ","))
	c.must("grant", "bob", "view", "--role", "eng")
	bob := c.person("bob")
	_, stderr, code := tender(t, c.env, "run", "--", "sh", "-c", "exit 3")
	if code != 3 {
		t.Fatalf("a task that fails: exit code %d, %s", code, stderr)
	}
	var task string
	until(t, "the end of the task is in the history", func() bool {
		for _, e := range events(t, c.env, "--all") {
			if e.Kind == "task" && e.What == "failed" && strings.Contains(e.Why, "3") {
				task = e.Name
			}
		}
		return task != ""
	})
	framework, _, _ := strings.Cut(task, "/")
	until(t, "the end of the framework is", func() bool { return tells(events(t, c.env), "framework", framework, "removed") })
	follower := start(t, c.env, "events", "-f")
	follower.await("task/" + task)
	c.must("weight", "eng", "2")
	follower.await("set          role/eng: weight 2, priority 0, guarantee nothing, limit none (person admin)")
	before := events(t, c.env, "--all")

	c.killAll()
	until(t, "a new leader's election is told", func() bool {
		stdout, _, code := tender(t, c.env, "events", "--kind", "election", "-o", "json")
		return code == 0 && strings.Contains(stdout, `"what": "won"`)
	})
	follower.await("won          election/")
	after := events(t, c.env, "--all")
	for _, e := range before {
		if !slices.Contains(after, e) {
			t.Errorf("%v is told no more", e)
		}
	}

	if own := events(t, c.env, "--of", "task/"+task); !tells(own, "task", task, "launched") || !tells(own, "task", task, "running") || !tells(own, "task", task, "failed") {
		t.Errorf("of the task it tells %v", own)
	}
	story := c.must("explain", task, "--at", "now")
	place := 0
	for _, words := range []string{"task/" + task + " at ", ": failed on agent/", "asked ", "made ", "launched ", "running ", "failed "} {
		next := strings.Index(story[place:], words)
		if next < 0 {
			t.Fatalf("the way of the task lacks %q behind the others:\n%s", words, story)
		}
		place += next
	}
	if text := c.must("explain", framework, "--at", "now"); !strings.Contains(text, "removed") {
		t.Errorf("the framework's way:\n%s", text)
	}
	if text := c.must("describe", "agent", agentOf(t, after)); !strings.Contains(text, "Latest events:") || !strings.Contains(text, "failed") {
		t.Errorf("described:\n%s", text)
	}
	his := events(t, bob, "--all")
	if tells(his, "task", task, "failed") || tells(his, "framework", framework, "removed") || !tells(his, "agent", agentOf(t, after), "admitted") {
		t.Errorf("bob, who may view role eng, sees %v", his)
	}

	c.restore()
	until(t, "the restored master tells of its election", func() bool {
		stdout, _, code := tender(t, c.env, "events", "--kind", "election", "-o", "json")
		return code == 0 && strings.Contains(stdout, `"epoch": 1`)
	})
	last := events(t, c.env, "--all")
	for _, e := range before {
		if !slices.Contains(last, e) {
			t.Errorf("after the restore %v is told no more", e)
		}
	}
}

// killAll kills all three masters at once, and starts them again.
func (c *trusted) killAll() {
	c.t.Helper()
	for _, p := range c.procs {
		p.signal(syscall.SIGKILL)
	}
	for i, p := range c.procs {
		p.wait()
		c.procs[i] = start(c.t, c.env, "master", "--data-dir", c.folder(fmt.Sprint("m", i+1)))
	}
}

// restore saves a snapshot, kills all masters, and starts one of the snapshot alone, with a copy of the first one's
// history and key.
func (c *trusted) restore() {
	c.t.Helper()
	saved, restored := filepath.Join(c.dir, "saved"), c.folder("restored")
	c.must("raft", "snapshot", "save", saved)
	for _, p := range c.procs {
		p.signal(syscall.SIGKILL)
		p.wait()
	}
	c.must("raft", "snapshot", "restore", saved, "--data-dir", restored, "--id", "m1", "--raft-address", c.raft[0])
	if err := os.CopyFS(filepath.Join(restored, "history"), os.DirFS(filepath.Join(c.folder("m1"), "history"))); err != nil {
		c.t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(c.folder("m1"), "cluster.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(restored, "cluster.key"), key, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	_, port, _ := strings.Cut(c.masters[0], ":")
	start(c.t, c.env, "master", "--data-dir", restored, "--grpc-port", port, "--raft-port", strings.TrimPrefix(c.raft[0], "127.0.0.1:"), "--http-port", "0")
}

// agentOf returns the agent that was admitted.
func agentOf(t *testing.T, all []happened) string {
	t.Helper()
	for _, e := range all {
		if e.Kind == "agent" && e.What == "admitted" {
			return e.Name
		}
	}
	t.Fatalf("no agent was admitted: %v", all)
	return ""
}
