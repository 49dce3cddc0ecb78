package cli_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/tools/devcluster"
)

// proc is a running tender process.
type proc struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // lines of both outputs; closed at their end
	stdout output
	stderr output
	said   []string // lines that were read and not awaited yet
	ended  chan struct{}
	code   int
	told   atomic.Bool // it was told to end: it ends by itself, was signalled by the test, or the test has ended
}

// running holds the processes of each test. If a daemon ends without having been told to, the others are killed: what
// the test waits for would never come.
var running struct {
	sync.Mutex
	of map[*testing.T][]*proc
}

func (p *proc) enter() {
	running.Lock()
	defer running.Unlock()
	if running.of == nil {
		running.of = map[*testing.T][]*proc{}
	}
	running.of[p.t] = append(running.of[p.t], p)
}

// endedUntold fails the test, and kills its other processes so that nobody waits for them.
func (p *proc) endedUntold() {
	running.Lock()
	defer running.Unlock()
	p.t.Errorf("%v ended by itself with %d", p.cmd.Args[1:], p.code)
	for _, other := range running.of[p.t] {
		if other != p && !other.over() {
			_ = other.cmd.Process.Kill() // it may have ended already
		}
	}
}

// start starts the binary. What still runs at the test's end is killed.
func start(t *testing.T, env []string, args ...string) *proc {
	t.Helper()
	return launch(t, env, !slices.Contains([]string{"dev", "agent", "master", "jobs", "mesos"}, args[0]), args)
}

// launch starts the binary; mayEnd says that it may end without being told to.
func launch(t *testing.T, env []string, mayEnd bool, args []string) *proc {
	t.Helper()
	if args[0] == "agent" && strings.HasPrefix(args[1], "--") { // its tasks may do what the test may do
		args = slices.Insert(slices.Clone(args), 1, "--task-user", devcluster.Me())
	}
	return launchProgram(t, needsBinary(t), env, mayEnd, args)
}

// launchProgram starts any program in this way.
func launchProgram(t *testing.T, program string, env []string, mayEnd bool, args []string) *proc {
	t.Helper()
	p := &proc{t: t, cmd: exec.Command(program, args...), lines: make(chan string, 10_000), ended: make(chan struct{})}
	p.told.Store(mayEnd)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.WaitDelay = hang.After // a process that has inherited its outputs and outlives it would block us for ever
	stdout, stderr := p.pipe(&p.stdout), p.pipe(&p.stderr)
	p.cmd.Stdout, p.cmd.Stderr = stdout.w, stderr.w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.enter()
	go func() { // it ends with the process
		defer close(p.ended)
		err := p.cmd.Wait()
		stdout.close()
		stderr.close()
		close(p.lines)
		p.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
		var exited *exec.ExitError
		if err != nil && !errors.As(err, &exited) {
			t.Errorf("%v: %v", args, err)
		}
		if !p.told.Load() {
			p.endedUntold()
		}
	}()
	t.Cleanup(func() {
		p.told.Store(true)
		if !p.over() {
			_ = p.cmd.Process.Kill() // it may have ended already
		}
		<-p.ended
		if folder := slices.Index(args, "--data-dir") + 1; folder > 0 && args[0] == "agent" {
			endExecutors(t, args[folder])
		}
		if t.Failed() {
			t.Logf("%s\nstdout:\n%sstderr:\n%s", strings.Join(args, " "), &p.stdout, &p.stderr)
		}
	})
	return p
}

// endExecutors kills the executors and tasks of an agent that does not run any more. They would outlive their test,
// because an agent leaves them to the next one with its data folder, for which executors wait until their recovery
// timeout.
func endExecutors(t *testing.T, dataDir string) {
	t.Helper()
	tree := cell.Open(cell.Place{Folder: dataDir, Best: cell.Groups}) // it finds the agent's control groups and makes none
	if err := errors.Join(tree.Sweep(context.Background(), nil), tree.Close()); err != nil {
		t.Errorf("the executors of %s: %v", dataDir, err)
	}
}

type pipe struct {
	w    *io.PipeWriter
	done chan struct{}
}

// output is what a process has written until now. It may be read while the process runs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) add(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.WriteString(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// pipe copies an output into a buffer and, line by line, into the channel. If the channel is full, lines are lost, and
// the process is not blocked.
func (p *proc) pipe(into *output) pipe {
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			into.add(line)
			if line != "" {
				select {
				case p.lines <- line:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return pipe{w, done}
}

func (p pipe) close() {
	_ = p.w.Close() // it never fails
	<-p.done
}

func (p *proc) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// await waits until the process has written a line with these words. Each line is taken once. The order of the two
// outputs is not defined.
func (p *proc) await(words string) {
	p.t.Helper()
	has := func(line string) bool { return strings.Contains(line, words) }
	if i := slices.IndexFunc(p.said, has); i >= 0 {
		p.said = slices.Delete(p.said, i, i+1)
		return
	}
	limit := time.NewTimer(hang.After)
	defer limit.Stop()
	for {
		select {
		case line, more := <-p.lines:
			switch {
			case !more:
				p.t.Fatalf("%v ended without saying %q:\n%s", p.cmd.Args[1:], words, strings.Join(p.said, ""))
			case has(line):
				return
			}
			p.said = append(p.said, line)
		case <-limit.C:
			hung(p.t, fmt.Sprintf("%v says %q", p.cmd.Args[1:], words))
		}
	}
}

// hasSaid reports, without waiting, whether the process has written a line with these words. The line stays for await.
func (p *proc) hasSaid(words string) bool {
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				p.said = append(p.said, line)
				continue
			}
		default:
		}
		return slices.ContainsFunc(p.said, func(line string) bool { return strings.Contains(line, words) })
	}
}

// wait waits for the end of the process and returns the exit code.
func (p *proc) wait() int {
	p.t.Helper()
	limit := time.NewTimer(hang.After)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		hung(p.t, fmt.Sprintf("the end of %v", p.cmd.Args[1:]))
	}
	return p.code
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	p.told.Store(true)
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// tender runs a command to its end, also a daemon that is expected to fail.
func tender(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := launch(t, env, true, args)
	code = p.wait()
	return p.stdout.String(), p.stderr.String(), code
}

// freePort returns a port that is the test's until it ends, also between the kill of an agent and its next start.
func freePort(t *testing.T) int { return freeports.ReserveOne(t) }
