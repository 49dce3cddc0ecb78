package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/walls/birth"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/datafolder"
)

// Run serves the agent that started this process; see [executor.Run]. told is what the agent says in the environment of
// the control groups for tasks; "" if it says nothing.
func Run(ctx context.Context, told string) error {
	config, err := executor.Environment()
	if err != nil {
		return err
	}
	return Serve(ctx, config, told)
}

// Serve runs the executor with this config. told is as for [Run].
func Serve(ctx context.Context, config executor.Config, told string) error {
	cells, err := newCells(told)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return api.E("executor.run", api.Internal, os.DevNull, err)
	}
	defer null.Close()
	adoptOrphans()
	x := newCommands(null, cells)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + starters()) // a start holds one of these up until the child has executed its program
	defer runtime.GOMAXPROCS(processors)
	for range starters() {
		running.Go(x.start)
	}
	running.Go(func() {
		birth.OpenFiles() // before others wait for children
		x.reap()
	})
	running.Go(func() { x.sweep(ctx) })
	if cells.killsSingly() {
		running.Go(func() { x.watchMemory(ctx) })
	}
	config.Probe = x.probe
	err = executor.Serve(ctx, config, x)
	stop()
	x.close()
	running.Wait()
	return errors.Join(err, cells.forget(), cells.removeSpares())
}

// starters returns how many tasks are started at the same time. A start mostly waits for the kernel.
func starters() int { return max(2, runtime.GOMAXPROCS(0)) }

// commands is the handler: it starts, watches and kills processes.
type commands struct {
	null *os.File

	cells *cells // nil: tasks have no control groups and no other isolation

	mu       sync.Mutex
	changed  sync.Cond // starts is not empty, or a child exists, or closing is set
	tasks    map[api.TaskID]*process
	leaders  map[int]*process  // tasks whose first process was started and is not reaped, by its number
	leftover map[*process]bool // tasks whose first process is reaped, or was never started, and whose other processes are not gone
	checks   map[int]*check    // checks whose first process is not reaped, by its number
	starts   []*process        // tasks that wait to be started; bounded by the agent's tasks
	inFlight int               // how many starts there are whose process number is not known yet
	sequence uint64            // counts starts
	early    map[int]early     // children that were reaped before their start had returned, by their numbers
	closing  bool
	sweeping chan struct{} // capacity 1: leftover is not empty
}

// process is a task.
type process struct {
	task     *executor.Task
	pid      int   // of its first process and its process group; 0: not started
	refused  error // why its first process was not started
	status   syscall.WaitStatus
	killed   bool         // the agent has asked for its end
	strays   map[int]bool // processes that were killed outside of the process group, and are not reaped
	check    *check       // the check that runs or is being started; nil: none
	fading   int          // the process group of the check before, if some of it was left; 0: none
	deadline *time.Timer
	killBy   time.Time    // when deadline fires
	cell     *taskCell    // nil: the task has none
	rest     *cell.Cell   // what is left of the cell if it could not be kept for a next task; nil: that was not tried yet
	helped   bool         // its first process is a helper, so it has namespaces
	limit    cell.Reached // read when its first process had ended
	judged   bool         // limit was set
}

// early is the end of a process that was not known when it was reaped. Only a start that had begun by then, whose
// number is at most sequence, can be the start of that process.
type early struct {
	status   syscall.WaitStatus
	sequence uint64
}

func newCommands(null *os.File, cells *cells) *commands {
	x := &commands{
		cells:    cells,
		null:     null,
		tasks:    make(map[api.TaskID]*process),
		leaders:  make(map[int]*process),
		leftover: make(map[*process]bool),
		checks:   make(map[int]*check),
		early:    make(map[int]early),
		sweeping: make(chan struct{}, 1),
	}
	x.changed.L = &x.mu
	return x
}

// Launch queues the start of a task.
func (x *commands) Launch(task *executor.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := &process{task: task}
	x.tasks[task.ID] = p
	x.starts = append(x.starts, p)
	x.changed.Broadcast()
}

// Kill sends the task's kill signal to the task's process group, and SIGKILL when the grace is over. A further kill can only shorten
// the remaining time.
func (x *commands) Kill(task *executor.Task, grace time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.tasks[task.ID]
	if grace <= 0 {
		grace = executor.DefaultGrace
	}
	by := time.Now().Add(grace)
	switch {
	case p == nil:
		return
	case !p.killed:
		p.deadline = time.AfterFunc(grace, func() { x.killNow(p) })
	case by.Before(p.killBy):
		p.deadline.Reset(grace)
		p.killBy = by
		return
	default:
		return
	}
	p.killed, p.killBy = true, by
	if p.pid != 0 {
		_ = syscall.Kill(-p.pid, p.signal())
	}
}

// signal is what asks the task to end. A helper knows what its program is sent in place of SIGTERM.
func (p *process) signal() syscall.Signal {
	if asked := signals[p.task.KillSignal]; asked != 0 && !p.helped {
		return asked
	}
	return syscall.SIGTERM
}

// signals are those that may ask a task to end, by their names.
var signals = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGTERM": syscall.SIGTERM, "SIGUSR1": syscall.SIGUSR1,
	"SIGUSR2": syscall.SIGUSR2, "SIGWINCH": syscall.SIGWINCH,
}

// killNow kills a task whose grace is over. Holds: the process group of a task in tasks is not gone yet, so its number
// belongs to no other group.
func (x *commands) killNow(p *process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tasks[p.task.ID] != p || p.pid == 0 {
		return
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	if p.cell != nil {
		_ = p.cell.Kill() // what is left when the first process has ended is killed again
	}
}

func (x *commands) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closing = true
	x.cells.close()
	x.endOrphans()
	x.changed.Broadcast()
}

// start starts one task after the other, until no more will come.
func (x *commands) start() {
	for {
		p, sequence := x.next()
		if p == nil {
			return
		}
		began := ticksNow()
		pid, err := x.cells.spawn(p, x.null)
		x.started(p, sequence, began, pid, err)
	}
}

// next waits for a task that is to be started, and returns it with the number of the start; nil: no more will come.
func (x *commands) next() (*process, uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		for len(x.starts) == 0 && !x.closing {
			x.changed.Wait()
		}
		if x.closing {
			return nil, 0
		}
		p := x.starts[0]
		x.starts = x.starts[1:]
		if p.killed {
			x.end(p, executor.Report{State: api.TaskKilled, Message: "killed before it was started"})
			continue
		}
		x.inFlight++
		x.sequence++
		return p, x.sequence
	}
}

// started notes a task's new process, and reports that the task runs. The process may have ended already. began is the
// tick in which its start began.
func (x *commands) started(p *process, sequence, began uint64, pid int, err error) {
	since := began
	if err == nil && ticksNow() != began { // mostly it is the same tick still, so the process began in it
		since = startTime(pid)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	ended, found := x.landed(pid)
	if err != nil {
		p.refused = err
		x.leaderGone(p)
		return
	}
	p.pid = pid
	_ = p.task.Report(executor.Report{State: api.TaskRunning, ProcessGroup: pid, ProcessStart: since})
	if found && ended.sequence >= sequence {
		p.status = ended.status
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		x.leaderGone(p)
		return
	}
	x.leaders[pid] = p
	if p.killed {
		_ = syscall.Kill(-pid, p.signal())
	}
	x.changed.Broadcast()
}

// landed notes that a start has returned, and tells whether its process was reaped already, and how it ended. Under mu.
func (x *commands) landed(pid int) (ended early, found bool) {
	x.inFlight--
	ended, found = x.early[pid]
	delete(x.early, pid)
	if x.inFlight == 0 {
		clear(x.early)
	}
	return ended, found
}

// end reports the end of a task, and forgets the task. Under mu.
func (x *commands) end(p *process, report executor.Report) {
	if p.deadline != nil {
		p.deadline.Stop()
	}
	delete(x.tasks, p.task.ID)
	_ = p.task.Report(report)
}

// outcome returns the report of how a task has ended.
func (p *process) outcome() executor.Report {
	if p.refused != nil {
		return executor.Report{State: api.TaskFailed, Reason: reasonOf(p.refused), Message: p.refused.Error()}
	}
	code := p.status.ExitStatus()
	message := fmt.Sprintf("exited with %d", code)
	if p.status.Signaled() {
		code = 128 + int(p.status.Signal())
		message = fmt.Sprintf("ended by signal %d (%v)", int(p.status.Signal()), p.status.Signal())
	}
	report := executor.Report{State: api.TaskFailed, ExitCode: &code, Message: message}
	report.Output = outputSize(p.task.Sandbox)
	switch {
	case p.killed:
		report.State = api.TaskKilled
	case code == 0:
		report.State, report.Message = api.TaskFinished, ""
	case isDiskFull(p.task.Sandbox): // programs can't say so themselves: their stderr is on that disk
		report.Message += "; the disk of its sandbox is full"
	}
	p.explainLimit(&report)
	if report.State == api.TaskFailed && report.Message == message { // nothing else says why
		if line := lastLine(p.task.Sandbox); line != "" {
			report.Message += "; the last line of its stderr: " + line
		}
	}
	return report
}

// lastLine returns the last line that a task has written to its stderr; "": there is none.
func lastLine(sandbox string) string {
	folder := beneath.New(sandbox)
	line := tail.LastLine(folder.At(sandbox), "stderr", 0)
	_ = folder.Close() // nothing was written
	return line
}

// isDiskFull reports whether hardly anything can be written to the disk that holds a folder.
func isDiskFull(folder string) bool {
	const fullBytes = 64 << 10
	room, err := datafolder.RoomOf(folder)
	return err == nil && (room.Free < fullBytes || room.LacksInodes(1))
}

// outputSize returns how much a task has written to its outputs; nil if one of them is missing or is no regular file.
func outputSize(sandbox string) *api.OutputSize {
	var sizes [2]int64
	for i, name := range []string{"stdout", "stderr"} {
		info, err := os.Lstat(filepath.Join(sandbox, name))
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		sizes[i] = info.Size()
	}
	return &api.OutputSize{Stdout: sizes[0], Stderr: sizes[1]}
}

var errNoCommand = errors.New("the task has no command, and the built-in executor runs nothing else")
