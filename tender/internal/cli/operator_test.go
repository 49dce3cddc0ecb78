package cli_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The commands of an operator in the first hour, with the real binary.
func TestAnOperatorsWords(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	run := start(t, d.env, "run", "--name", "sleeper", "--role", "eng", "--", "sh", "-c", "echo up; exec sleep 1000")
	run.await("up")
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string // parts of them; "" = nothing at all
	}{
		{"get tasks --agent nosuch", 1, "", `no agent is called "nosuch"; 'tender get agents' lists them`},
		{"get offers --framework nosuch", 1, "", `no framework is called "nosuch"`},
		{"get tasks --agent " + d.Agents[0].ID + " -o name", 0, "/sleeper.0\n", ""},
		{"get tasks --framework sleeper -o name", 0, "/sleeper.0\n", ""},
		{"get tasks --role eng -o name", 0, "/sleeper.0\n", ""},
		{"get tasks --role web -o name", 1, "", `no role is called "web"; 'tender get roles' lists them`},
		{"weight eng 2", 0, "Weight:          2", ""},
		{"weight egn 2", 0, "Weight:          2", "role egn is new: no framework has subscribed to it yet; did you mean eng?"},
		{"priority eng 10", 0, "Priority:        10", "the masters share resources by the allocator fairshare, which has no priorities"},
		{"quota ops --limit cpus:1", 0, "Limit:", "role ops is new: no framework has subscribed to it yet\n"},
		{"whoami", 0, "Name:  admin\nMay:   admin\n", ""},
		{"can-i kill-task --role eng", 0, "yes\n", ""},
		{"can-i fly", 2, "", `there is no verb "fly"`},
		{"grant etl run --role eng --user etl", 0, "etl may run --role eng --user etl\n", ""},
		{"grant etl fly", 2, "", `there is no verb "fly"; there are view run operate admin`},
		{"get principals -o name", 0, "etl\n", ""},
		{"describe principal etl", 0, "May:        run --role eng --user etl", ""},
		{"revoke etl run --role eng", 1, "", "a grant is taken back in the words in which it was given"},
		{"revoke etl", 2, "", "there is no terminal to ask"},
		{"revoke etl --force --why leaked", 0, "etl is revoked", ""},
		{"get principals --all", 0, "revoked: leaked", ""},
		{"grant etl view", 1, "", "take another name"},
		{"kill sleep", 1, "", `no task is called "sleep", which is only the start of`},
		{"drain agent", 1, "", `no agent is called "agent", which is only the start of ` + d.Agents[0].ID},
		{"drain " + d.Agents[0].ID, 0, "is draining; it has 1 task\n", ""},
	} {
		stdout, stderr, code := tender(t, d.env, strings.Fields(test.args)...)
		if code != test.code || !says(stdout, test.stdout) || !says(stderr, test.stderr) {
			t.Errorf("%s: exit code %d\nstdout %q\nstderr %q", test.args, code, stdout, stderr)
		}
	}
	if code := run.wait(); code == 0 || !strings.Contains(run.stderr.String(), "AGENT_DRAINING") {
		t.Errorf("the run of a drained agent: exit code %d, %s", code, &run.stderr)
	}
	until(t, "the run's framework is only a memory", func() bool { return len(get(t, d.env, "frameworks").Items) == 0 })
	if all := get(t, d.env, "frameworks", "--all").Items; len(all) != 1 || all[0].State != "removed" {
		t.Errorf("all frameworks are %+v", all)
	}
}

// says reports whether text contains the words; without words, whether it is empty.
func says(text, words string) bool {
	if words == "" {
		return text == ""
	}
	return strings.Contains(text, words)
}

// A daemon that was asked to stop and does so has not failed: service managers look at the exit code.
func TestADaemonThatIsToldToStopExitsWithZero(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	port := func() string { return strconv.Itoa(freePort(t)) }
	for name, args := range map[string][]string{
		"a leader":                {"master", "--insecure", "--data-dir", filepath.Join(dir, "m"), "--grpc-port", port(), "--http-port", port(), "--raft-port", port()},
		"an agent without master": {"agent", "--insecure", "--data-dir", filepath.Join(dir, "a"), "--http-port", port(), "--master", "127.0.0.1:" + port()},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			p := start(t, nil, args...)
			p.await(map[string]string{"master": `"leading"`, "agent": "no leader"}[args[0]])
			p.signal(signal)
			p.await(args[0] + " leaves; it ")
			p.await(args[0] + " has ended")
			if code := p.wait(); code != 0 || strings.Contains(p.stderr.String(), "tender: ") {
				t.Errorf("%s, %v: exit code %d\n%s", name, signal, code, &p.stderr)
			}
		}
	}
}
