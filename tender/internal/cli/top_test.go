package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// typist is a person at a terminal on which the binary runs.
type typist struct {
	t        *testing.T
	terminal *os.File
	ended    chan struct{}

	mu   sync.Mutex
	said string // what came since the last redraw; guarded by mu
}

func atTerminal(t *testing.T, env []string, args ...string) (*typist, *exec.Cmd) {
	command := exec.Command(needsBinary(t), args...)
	command.Env = append(append(command.Environ(), "TERM=xterm", "NO_COLOR=1"), env...)
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	p := &typist{t: t, terminal: terminal, ended: make(chan struct{})}
	go func() { // it ends with the process, whose terminal is closed then
		defer close(p.ended)
		buffer := make([]byte, 64<<10)
		for {
			n, err := terminal.Read(buffer)
			p.mu.Lock()
			p.said += string(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended already
		<-p.ended
		_ = terminal.Close()
	})
	return p, command
}

// await waits until the screen has all the words. Programs send only what changes on the screen, and all of it when its
// size does; so the window is made larger and smaller until then.
func (p *typist) await(words ...string) {
	p.t.Helper()
	asked, screen := 0, ""
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the screen: %q", screen)
		}
	}()
	until(p.t, "the screen has "+strings.Join(words, ", "), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		screen = p.said
		lacks := func(word string) bool { return !strings.Contains(screen, word) }
		if !slices.ContainsFunc(words, lacks) {
			return true
		}
		if asked++; asked%10 == 1 {
			p.said = ""
			if err := pty.Setsize(p.terminal, &pty.Winsize{Rows: 24, Cols: uint16(100 + asked%20)}); err != nil {
				p.t.Fatal(err)
			}
		}
		return false
	})
}

func (p *typist) press(keys string) {
	if _, err := p.terminal.WriteString(keys); err != nil {
		p.t.Error(err)
	}
}

// TestTop: on a terminal the tables are as the cluster is, also behind another leader; a thing's own words are shown;
// elsewhere everything is printed once.
func TestTop(t *testing.T) {
	d := startDev(t, "--masters", "3", "--agents", "1", "--master-processes", "--no-heal")
	top, command := atTerminal(t, d.env, "top")
	top.await("[1 agents 1]", d.Agents[0].ID, "RUNNING")
	top.press("5")
	top.await("[5 tasks 0]")
	run := start(t, d.env, "run", "--name", "first", "--", "sh", "-c", "echo up; exec sleep 1000")
	run.await("up")
	top.await("first.0")
	top.press("l")
	top.await("tender logs", "up")
	top.press("\x1b")
	top.await("first.0", "by TASK")

	before := leader(t, d)
	for _, master := range d.Masters {
		if master.GRPC == before {
			if err := syscall.Kill(master.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := start(t, d.env, "run", "--name", "second", "--", "sh", "-c", "echo up; exec sleep 1000")
	second.await("up")
	top.await("second.0")
	top.press("/second\r\r")
	top.await("tender describe task", "sleep 1000")

	var all map[string][]struct{ ID, State string }
	stdout, stderr, code := tender(t, d.env, "top", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if len(all["agents"]) != 1 || len(all["tasks"]) != 2 || len(all["jobs"]) != 0 || len(all["frameworks"]) == 0 || len(all["roles"]) == 0 {
		t.Errorf("as JSON: %+v", all)
	}
	stdout, stderr, code = tender(t, d.env, "top", "tasks", "--filter", "SECOND")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); code != 0 || len(lines) != 5 || !strings.Contains(lines[4], "second.0") {
		t.Errorf("elsewhere: exit code %d, %s%s", code, stdout, stderr)
	}
	for args, want := range map[string]string{
		"top masters":          "agents, roles, frameworks, jobs",
		"top agents --sort me": "HOSTNAME",
	} {
		if _, stderr, code := tender(t, d.env, strings.Fields(args)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}

	top.press("qq")
	<-top.ended
	if err := command.Wait(); err != nil {
		t.Errorf("top ends with %v", err)
	}
	if !strings.Contains(top.said, "\x1b[?1049l") {
		t.Errorf("the terminal is not as it was: %q", top.said)
	}
}
