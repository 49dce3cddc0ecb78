package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/dev/bench/hostile"
)

// hostileTasks are the tasks beside which a neighbour is measured. They exceed the limits of their walls, so they run
// only with walls.
var hostileTasks = []struct{ name, shell string }{
	{"a task that needs all processors", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"},
	{"a fork bomb", "bomb() { while :; do bomb & done 2>/dev/null; }; while :; do bomb; done"},
	{"a task that needs all memory", "while :; do dd if=/dev/zero of=/dev/null bs=512M count=1 2>/dev/null; done"},
	{"a task that fills its output", "while :; do head -c 1048576 /dev/zero; done"},
}

// neighbourPids limits the processes of each hostile task, because the other task is measured, and not how long the
// kernel takes to end the processes.
const neighbourPids = 100

// measureNeighbour measures the delays of a task that does a little work again and again, alone and beside each hostile
// task. Both ask for a core.
func (a *alone) measureNeighbour(ctx context.Context, o options, walls string) error {
	quiet, err := a.delays(ctx, o, "")
	if err != nil {
		return err
	}
	for _, hostile := range hostileTasks {
		beside, err := a.delays(ctx, o, hostile.shell)
		if err != nil {
			return fmt.Errorf("beside %s: %w", hostile.name, err)
		}
		row("a neighbour's p99 beside "+hostile.name+", "+walls, fmt.Sprintf("%.1f ms", beside),
			fmt.Sprintf("%.1f ms without it: %.1f times as long", quiet, beside/quiet))
	}
	return nil
}

// delays runs the neighbour once, beside a hostile task or, with "", alone. It returns its p99 in milliseconds.
func (a *alone) delays(ctx context.Context, o options, hostile string) (p99 float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	n := &neighbourhood{hostile: hostile, neighbour: api.Command{
		Argv: []string{"./bench", "-only", "neighbour", "-beside", o.beside.String()},
		URIs: []api.URI{{Source: "file://" + self, Name: "bench", Executable: true}},
	}}
	ctx, n.finish = context.WithCancel(ctx)
	defer n.finish()
	config := framework.Config{Name: "beside", Masters: strings.Split(a.cluster.MasterAddresses(), ","), TeardownAtEnd: true, Token: framework.NoToken}
	if err := errors.Join(framework.Run(ctx, config, n), n.failure); err != nil {
		return 0, err
	}
	outputs, err := filepath.Glob(filepath.Join(a.folder, "agent", "sandboxes", string(n.framework), "*", "tasks", "neighbour", "stdout"))
	if err != nil || len(outputs) != 1 {
		return 0, fmt.Errorf("the neighbour has left the outputs %v, %w", outputs, err)
	}
	text, err := os.ReadFile(outputs[0])
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &p99)
	return p99, err
}

// neighbourhood is a scheduler that runs a neighbour once the hostile task runs, and restarts the hostile task whenever
// it ends.
type neighbourhood struct {
	neighbour api.Command
	hostile   string // "": none
	client    *framework.Client
	framework api.FrameworkID
	tasks     []api.Task // tasks to launch
	again     int
	ending
}

func (n *neighbourhood) Subscribed(_ context.Context, client *framework.Client) error {
	n.client, n.framework = client, client.FrameworkID()
	if n.hostile == "" {
		return n.want(n.neighbourTask())
	}
	return n.want(n.hostileTask())
}

func (n *neighbourhood) neighbourTask() api.Task {
	return api.Task{ID: "neighbour", Resources: api.Scalars(1, 64), Command: &n.neighbour}
}

func (n *neighbourhood) hostileTask() api.Task {
	n.again++
	return api.Task{
		ID: api.TaskID(fmt.Sprintf("hostile.%d", n.again)), Resources: api.Scalars(1, 64), Limits: api.Limits{Pids: neighbourPids},
		Command: &api.Command{Shell: n.hostile},
	}
}

func (n *neighbourhood) want(task api.Task) error {
	n.tasks = append(n.tasks, task)
	return n.client.Demand(api.Demand{Shapes: []api.Shape{{Resources: task.Resources, Count: int64(len(n.tasks))}}})
}

func (n *neighbourhood) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	answers := make([]api.Answer, 0, len(offers))
	for _, offer := range offers {
		answer := api.Launch(offer, n.tasks...) // the agent has room for all of them
		answer.Filter, n.tasks = api.NoFilter, nil
		answers = append(answers, answer)
	}
	n.fail(n.client.Demand(api.Demand{}))
	return answers
}

func (n *neighbourhood) Update(_ context.Context, status api.Status) error {
	own := status.Task == "neighbour"
	switch {
	case !own && status.State == api.TaskRunning && n.again == 1:
		return n.want(n.neighbourTask())
	case !own && status.State.Terminal():
		return n.want(n.hostileTask())
	case own && status.State == api.TaskFinished:
		n.finish()
	case own && status.State.Terminal():
		n.fail(fmt.Errorf("the neighbour is %s %s: %s", status.State, status.Reason, status.Message))
	}
	return nil
}

// beNeighbour is the neighbour task: every five milliseconds it sums up numbers for about half a millisecond. It
// prints, in milliseconds, the p99 of how long after its due time each sum was done.
func beNeighbour(_ context.Context, o options) error {
	const each, numbers = 5 * time.Millisecond, 500_000
	var took []float64
	sum := 0
	for next := time.Now(); len(took) < int(o.beside/each); next = next.Add(each) {
		time.Sleep(time.Until(next))
		for i := range numbers {
			sum += i ^ sum
		}
		took = append(took, time.Since(next).Seconds()*1000)
	}
	slices.Sort(took)
	_, err := fmt.Println(took[len(took)*99/100], "of", len(took), "sums, the last of them", sum)
	return err
}

// busyProcess is a process beside the honest framework: how many threads it has, and how many processors it has used on
// average since it began.
type busyProcess struct {
	threads    int
	processors float64
}

// ownProcesses returns the processes that run this program: hostile peers and their executors, busy ones, and this one.
func ownProcesses() map[int]procfs.Proc {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	found := make(map[int]procfs.Proc)
	for _, process := range processes {
		if path, err := process.Executable(); err == nil && path == self {
			found[process.PID] = process
		}
	}
	return found
}

// seenSince returns those that were not there before.
func seenSince(before map[int]procfs.Proc) []busyProcess {
	var seen []busyProcess
	for pid, process := range ownProcesses() { // order: irrelevant because all are summed or started
		stat, err := process.Stat()
		if _, old := before[pid]; old || err != nil {
			continue
		}
		began, err := stat.StartTime()
		if err != nil {
			continue
		}
		lived := max(float64(time.Now().UnixMilli())/1000-began, 1)
		seen = append(seen, busyProcess{threads: stat.NumThreads, processors: stat.CPUTime() / lived})
	}
	return seen
}

// start starts a process that is as busy, until ctx ends. ended waits for its end.
func (b busyProcess) start(ctx context.Context) (ended func(), err error) {
	child, in, err := yielding("-only", "busy", fmt.Sprint(b.threads), fmt.Sprint(b.processors))
	if err != nil {
		return nil, err
	}
	child.Stdout = os.Stderr
	if err := child.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = in.Close() })
	return func() { _ = child.Wait() }, nil // it ends with its input
}

// beBusy is the main function of such a process. Its arguments are how many threads it has and how many processors it
// uses.
func beBusy(ctx context.Context, _ options) error {
	ctx, cancel := untilInputEnds(ctx)
	defer cancel()
	threads, err := strconv.Atoi(flag.Arg(0))
	if err != nil {
		return err
	}
	processors, err := strconv.ParseFloat(flag.Arg(1), 64)
	if err != nil {
		return err
	}
	hostile.Busy(ctx, threads, processors)
	return nil
}

// yieldingTo returns a command that yields the processors to all others: by Linux's idle policy, or else only by its
// priority, with which it still gets some milliseconds now and then.
func yieldingTo(argv ...string) []string {
	command := []string{"nice", "-n", "19"}
	if _, err := exec.LookPath("chrt"); err == nil {
		command = append(command, "chrt", "--idle", "0")
	}
	return append(command, argv...)
}

// goFirst makes all threads of a process get a processor before all others except those of a higher rank. What the
// process starts must not inherit that: see yieldingTo.
func goFirst(pid, rank int) error {
	said, err := exec.Command("chrt", "--all-tasks", "--rr", "--pid", strconv.Itoa(rank), strconv.Itoa(pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chrt can't put process %d first, which takes root: %w %s", pid, err, bytes.TrimSpace(said))
	}
	return nil
}

// yielding returns this program as a child process that yields.
func yielding(args ...string) (child *exec.Cmd, in io.Closer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	argv := yieldingTo(append([]string{self}, args...)...)
	child = exec.Command(argv[0], argv[1:]...)
	child.SysProcAttr, child.Stderr = ofOurs(), os.Stderr
	in, err = child.StdinPipe()
	return child, in, err
}

// untilInputEnds returns a context that ends with the standard input of this process.
func untilInputEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	return ctx, cancel
}
