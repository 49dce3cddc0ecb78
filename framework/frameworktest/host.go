package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	agentexecutor "github.com/tenderhq/tender/agent/executor"
	"github.com/tenderhq/tender/agent/executor/fake"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/protocol"
)

// host is the machine of an agent: its disk and its processes, which outlive the agent. A process is an executor: the
// real SDK in goroutines, whose tasks are played by a script or are functions of the test.
type host struct {
	handle   *Handle
	name     string
	total    api.Resources
	disk     *checkpoint.Memory
	launcher *fake.Launcher

	mu        sync.Mutex
	boot      int
	agent     api.AgentID // as on the disk; "" before the first contact
	last      int
	processes map[int]*process
	used      api.Resources        // held by executors and their tasks
	tasks     map[api.TaskRef]held // the tasks that run
}

// held is what a task holds, and how it is played.
type held struct {
	resources api.Resources
	executor  api.ExecutorRef
	uses      *api.Resources // what it really uses; nil: what it asked for
	end       chan Play      // how it is to end, now; nil: it is not played
	secrets   map[string]string

	began      time.Time
	readyAfter time.Duration // before this it passes no check
	ill        *bool         // as the story has set it; nil: it has not
}

// executorsPort is the port at which the agent listens for its executors, in place of a unix socket.
const executorsPort = "1"

func newHost(h *Handle, name string, total api.Resources) *host {
	host := &host{handle: h, name: name, total: total, disk: checkpoint.NewMemory(), boot: 1, processes: make(map[int]*process), tasks: make(map[api.TaskRef]held)}
	host.launcher = &fake.Launcher{Run: host.runExecutor}
	return host
}

func (h *host) bootID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "boot-" + h.name + "-" + strconv.Itoa(h.boot)
}

// agentID returns the agent's ID as it is on the disk.
func (h *host) agentID() api.AgentID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agent
}

// process is one executor's process.
type process struct {
	host *host
	name string // for people
	id   api.ExecutorRef
	kill context.CancelFunc
	dead context.Context // ends with SIGKILL

	mu    sync.Mutex
	own   api.Resources // of the executor itself; known from its first task on
	tasks sync.WaitGroup
	// graces holds the graces of tasks that are being killed.
	graces map[api.TaskID]*grace
}

// runExecutor is the process of an executor, from its start to its end. The end of the context is its SIGKILL.
func (h *host) runExecutor(ctx context.Context, start agentexecutor.Start) error {
	p := &process{host: h, id: start.Run, graces: make(map[api.TaskID]*grace)}
	p.dead, p.kill = context.WithCancel(ctx)
	defer p.kill()
	h.mu.Lock()
	h.last++
	number := h.last
	p.name = fmt.Sprintf("%s/%s-%d", h.name, start.Run.Executor, number)
	h.processes[number] = p
	h.mu.Unlock()

	ended := make(chan error, 1)
	h.handle.live.Go(func() { ended <- p.serve(start) })
	var err error
	select {
	case err = <-ended:
	case <-p.dead.Done():
		err = errSIGKILL
	}
	p.kill()
	p.mu.Lock() // from here on no task begins
	own := p.own
	p.mu.Unlock()
	p.tasks.Wait()
	h.freeResources(own)
	h.mu.Lock()
	delete(h.processes, number)
	h.mu.Unlock()
	return err
}

// serve runs the SDK. After SIGKILL it is cut off from the agent, and ends by itself without being heard.
func (p *process) serve(start agentexecutor.Start) error {
	recovery := start.RecoveryTimeout
	if recovery == 0 {
		recovery = -1
	}
	return executor.Serve(p.dead, executor.Config{
		Framework:       start.Run.Framework,
		ID:              start.Run.Executor,
		Token:           start.Token,
		Sandbox:         start.Sandbox,
		RecoveryTimeout: recovery,
		Logger:          p.host.handle.logs.slog(p.name),
		Dialer:          p.dial,
		Probe:           p.host.answerCheck,
	}, player{executor.Functions(p.runTask), p})
}

// dial connects to the agent of the host. SIGKILL closes the connection: what was sent before is still delivered, but
// nothing follows.
func (p *process) dial(ctx context.Context) (net.Conn, error) {
	if p.dead.Err() != nil {
		return nil, errSIGKILL
	}
	conn, err := p.host.handle.network.dial(ctx, p.host.name, net.JoinHostPort(p.host.name, executorsPort))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(p.dead, func() { _ = conn.Close() })
	return mortal{conn, p.dead}, nil
}

// mortal is a connection that accepts nothing after the SIGKILL.
type mortal struct {
	net.Conn
	dead context.Context
}

func (m mortal) Write(b []byte) (int, error) {
	if m.dead.Err() != nil {
		return 0, errSIGKILL
	}
	return m.Conn.Write(b)
}

var (
	errSIGKILL = errors.New("killed by signal 9")
	errLate    = errors.New("ended by signal 9 (killed)") // its grace was over
)

// listProcesses returns the processes in the order of their start.
func (h *host) listProcesses() []*process {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*process
	for _, number := range slices.Sorted(maps.Keys(h.processes)) {
		list = append(list, h.processes[number])
	}
	return list
}

// endAll ends all processes without telling anybody, because the story is over.
func (h *host) endAll() {
	for _, p := range h.listProcesses() {
		p.kill()
	}
}

// holdResources and freeResources add up what really runs; promise 1 is checked against the sum. Revocable resources
// are left out, because they belong to others that leave them unused. Amounts count without their labels, because the
// machine knows nothing of reservations and volumes, which are made of what it has.
func (h *host) holdResources(resources api.Resources) {
	resources = resources.Firm().Plain()
	h.mu.Lock()
	h.used = h.used.Plus(resources)
	used := h.used
	h.mu.Unlock()
	if !h.total.Plain().Contains(used) {
		h.handle.journal.noteBroken("%s is oversold: %v of %v (promise 1)", h.name, used, h.total)
	}
}

func (h *host) freeResources(resources api.Resources) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used = h.used.Without(resources.Firm().Plain())
}

// holdForTask and freeOfTask do the same for a task.
func (h *host) holdForTask(ref api.TaskRef, task held) {
	h.mu.Lock()
	h.tasks[ref] = task
	h.mu.Unlock()
	h.holdResources(task.resources)
}

func (h *host) freeOfTask(ref api.TaskRef) {
	h.mu.Lock()
	task := h.tasks[ref]
	delete(h.tasks, ref)
	h.mu.Unlock()
	h.freeResources(task.resources)
}

// Sample reports that every task uses what it asked for, unless the story says otherwise. Tasks that are functions of
// their executor have no processes of their own to measure: they count in the executor's use, and are listed only if
// the story says what they use.
func (h *host) Sample(now time.Time, targets []core.Target) protocol.UsageReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	report := protocol.UsageReport{Total: api.Usage{At: now, Procs: len(targets)}}
	if len(targets) == 0 {
		return report
	}
	report.Executors = make(map[api.ExecutorRef]api.Usage, len(targets))
	for _, target := range targets {
		report.Executors[target.Executor] = api.Usage{At: now, Procs: 1}
	}
	for ref, task := range h.tasks { // order: irrelevant because they are added up
		executor, known := report.Executors[task.executor]
		if !known {
			continue
		}
		used := api.Usage{At: now, CPU: task.resources.Scalar("cpus"), Mem: task.resources.Scalar("mem"), Procs: 1}
		if task.uses != nil {
			used.CPU, used.Mem = task.uses.Scalar("cpus"), task.uses.Scalar("mem")
			if report.Tasks == nil {
				report.Tasks = make(map[api.TaskRef]api.Usage)
			}
			report.Tasks[ref] = used
		}
		executor.CPU, executor.Mem = executor.CPU+used.CPU, executor.Mem+used.Mem
		report.Executors[task.executor] = executor
		report.Total.CPU, report.Total.Mem = report.Total.CPU+used.CPU, report.Total.Mem+used.Mem
	}
	return report
}
