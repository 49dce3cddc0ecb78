package sim

import (
	"maps"
	"slices"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// process is an executor's process. It follows the rules of the executors' SDK: what its agent has not acknowledged is
// told again, and a repeated launch is ignored.
type process struct {
	world   *World
	machine *machine
	parent  *daemon // the daemon that waits for its end
	run     agentcore.Run
	pid     int
	token   string
	builtin bool
	gated   bool // it waits at its gate
	dead    bool
	closing bool // it accepts no more launches
	// unwanted says that its scheduler has asked for its end.
	unwanted bool

	tasks    map[api.TaskID]*run
	endings  map[api.TaskID]bool
	line     *executorLine
	greeted  bool
	recovery time.Duration
	lost     time.Time // since when it has no agent
	dialing  bool
}

// run is one task in its executor.
type run struct {
	task      api.Task
	label     string
	process   *process
	began     time.Time // when it was first RUNNING
	watchedBy *daemon   // its agent's process then
	state     api.TaskState
	number    uint64
	kept      []protocol.ExecutorStatus
	pid       int       // of its own process group; 0: it runs in the executor's
	alive     bool      // its processes are alive
	killed    bool      // it was asked to end
	killBy    time.Time // until when it may take to end
	taken     bool      // its agent has acknowledged its end
	parts     int       // parts of its result that it has told, one in the data of each report of progress
}

// executorLine is an executor's stream, with both ends.
type executorLine struct {
	stream  *stream
	daemon  *daemon
	conn    agentConn // number at the agent; 0: the agent has not heard of it yet
	process *process
}

func (p *process) processID() agentcore.Process {
	return agentcore.Process{PID: p.pid, Start: uint64(p.pid)}
}

// openGate opens the gate, so that the program begins.
func (p *process) openGate() {
	p.gated, p.lost = false, p.world.now
	if p.world.drawChance(60) {
		p.world.planIn(p.world.drawBetween(0, 2*time.Second), func() { p.endProcess("it crashed at its start") })
	}
	p.dialAgent()
}

// endProcess ends the executor's own process. Tasks in process groups of their own live on until somebody ends them.
func (p *process) endProcess(why string) {
	if p.dead {
		return
	}
	p.dead = true
	p.world.tellStory(p.machine.name, "executor %s (run %d) ends: %s", p.run.Executor, p.run.Number, why)
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if r := p.tasks[id]; r.pid == 0 {
			p.world.truth.noteDeath(r)
		}
	}
	if p.line != nil {
		p.line.stream.tear()
	}
	parent := p.parent
	p.world.planIn(p.world.drawPause(), func() {
		if parent != nil && !parent.dead {
			parent.stepCore(agentcore.ExecutorExited{Run: p.run, Message: why})
		}
	})
}

// reapTasks ends the processes of all tasks.
func (p *process) reapTasks() {
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		p.world.truth.noteDeath(p.tasks[id])
	}
}

// killGroup ends the processes of one task; the executor notices it.
func (p *process) killGroup(group agentcore.Process) {
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if r := p.tasks[id]; r.alive && r.pid != 0 && r.pid == group.PID {
			p.world.truth.noteDeath(r)
			p.tellEnd(r, api.TaskKilled)
		}
	}
}

// dialAgent looks for the agent until it is there, or gives up after the recovery timeout (R32).
func (p *process) dialAgent() {
	if p.dead || p.dialing || p.line != nil {
		return
	}
	p.dialing = true
	p.world.planIn(p.world.drawBetween(time.Millisecond, time.Second), func() {
		p.dialing = false
		d := p.machine.daemon
		switch {
		case p.dead || p.line != nil:
		case p.world.now.Sub(p.lost) >= p.recovery:
			p.reapTasks()
			p.endProcess("its agent was away for too long")
		case d == nil || p.world.drawChance(20):
			p.dialAgent()
		default:
			p.openStream(d)
		}
	})
}

func (p *process) openStream(d *daemon) {
	line := &executorLine{stream: newStream(p.world), daemon: d, process: p}
	line.stream.atServer = func() {
		if line.conn != 0 {
			d.stepCore(agentcore.ExecutorClosed{Conn: line.conn})
			delete(d.executors, line.conn)
		}
	}
	line.stream.atClient = func(err *api.Error) { p.hearClosed(line, err) }
	p.line = line
	p.sendCalls(p.listSubscription()...)
}

// listSubscription lists the tasks and the statuses that are not acknowledged. A task that has ended is listed until its
// end is acknowledged, because a task that is not listed counts as never launched.
func (p *process) listSubscription() []protocol.ExecutorCall {
	first := protocol.SubscribeExecutor{ExecutorRef: p.run.Executor, Token: p.token, Version: "v1"}
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		r := p.tasks[id]
		first.Tasks = append(first.Tasks, id)
		first.Unacknowledged = append(first.Unacknowledged, r.kept...)
	}
	return []protocol.ExecutorCall{first}
}

func (p *process) hearClosed(line *executorLine, err *api.Error) {
	if p.line != line {
		return
	}
	p.line, p.lost = nil, p.world.now
	if p.dead {
		return
	}
	switch api.KindOf(err) {
	case api.Invalid, api.NotFound, api.Denied, api.Fenced, api.Removed, api.Unsupported:
		p.reapTasks()
		p.endProcess("its agent does not take it: " + err.Error())
		return
	}
	p.dialAgent()
}

// sendCalls sends calls in this session. Without a session they are kept or lost.
func (p *process) sendCalls(calls ...protocol.ExecutorCall) {
	line := p.line
	if line == nil {
		return
	}
	messages, err := wire.ExecutorCallBatches(calls)
	carry(line.stream, &line.stream.up, messages, err, func(message *apiv1.ExecutorCalls) (func(), error) {
		heard, err := wire.ExecutorCallsAfter(0, message)
		return func() { line.heard(heard) }, err
	})
}

// heard passes the calls to the agent's core.
func (line *executorLine) heard(calls []protocol.ExecutorCall) {
	d := line.daemon
	if d.dead { // it has died since it was dialed, and did not know this stream yet
		line.stream.tear()
		return
	}
	if line.conn == 0 {
		d.conns++
		line.conn = d.conns
		d.executors[line.conn] = line
		d.stepCore(agentcore.ExecutorOpened{Conn: line.conn, Subscribe: calls[0].(protocol.SubscribeExecutor)})
		calls = calls[1:]
	}
	if len(calls) > 0 {
		d.stepCore(agentcore.ExecutorCalled{Conn: line.conn, Calls: calls})
	}
}

// hearEvent handles an event of the agent.
func (p *process) hearEvent(line *executorLine, event protocol.ExecutorEvent) {
	if p.dead || p.line != line {
		return
	}
	switch e := event.(type) {
	case protocol.ExecutorSubscribed:
		p.greeted = true
	case protocol.ExecutorLaunch:
		p.launchTask(e)
	case protocol.ExecutorKill:
		if r := p.tasks[e.Task]; r != nil && !r.state.Terminal() {
			p.killTask(r, e.Grace)
		}
	case protocol.ExecutorAcknowledged:
		p.hearAcknowledged(e)
	case protocol.ExecutorShutdown:
		p.shutDown(e.Grace)
	case protocol.ExecutorMessage:
		p.sendCalls(protocol.ExecutorMessage{Data: e.Data})
	default: // the other events mean nothing here
	}
}

func (p *process) launchTask(e protocol.ExecutorLaunch) {
	if p.tasks[e.Task.ID] != nil || p.endings[e.Task.ID] {
		return // a repeated launch
	}
	r := &run{process: p, task: e.Task, label: e.Task.Labels[labelOfTry], state: api.TaskStaging}
	p.tasks[e.Task.ID] = r
	if p.closing {
		p.reportStatus(r, api.TaskKilled, api.ReasonExecutorTerminated)
		return
	}
	if p.builtin && p.world.drawChance(40) {
		p.reportStatus(r, api.TaskFailed, api.ReasonAgentFailed) // its control group can't be made, say (R59)
		return
	}
	if p.builtin {
		p.machine.pids++
		r.pid = p.machine.pids
	}
	p.world.truth.checkStart(p, r)
	if p.world.random.IntN(3) == 0 {
		p.reportStatus(r, api.TaskStarting, api.ReasonNone)
	}
	p.world.planIn(p.world.drawPause(), func() {
		if r.alive && !r.killed && !p.dead {
			p.reportStatus(r, api.TaskRunning, api.ReasonNone)
			r.began, r.watchedBy = p.world.now, p.machine.daemon
			if p.world.random.IntN(3) > 0 {
				p.tellProgress(r)
			}
		}
	})
	p.world.planIn(p.world.truth.lifeOf(r), func() { p.finishTask(r) })
}

// partsMax is less than the number of unacknowledged statuses of a task that an agent keeps, so that all are kept.
const partsMax = 8

// tellProgress tells one part of the task's result and, after a while, the next.
func (p *process) tellProgress(r *run) {
	if !r.alive || r.killed || p.dead || r.parts == partsMax {
		return
	}
	r.parts++
	p.reportStatus(r, api.TaskRunning, api.ReasonNone)
	p.world.planIn(p.world.drawBetween(0, time.Second), func() { p.tellProgress(r) })
}

// finishTask lets the task end by itself.
func (p *process) finishTask(r *run) {
	if !r.alive || p.dead {
		return
	}
	p.world.truth.noteDeath(r)
	state := api.TaskFinished
	if p.world.drawChance(6) {
		state = api.TaskFailed
	}
	p.tellEnd(r, state)
}

func (p *process) killTask(r *run, grace time.Duration) {
	by := p.world.now.Add(max(grace, time.Millisecond))
	if r.killed && !by.Before(r.killBy) {
		return
	}
	r.killed, r.killBy = true, by
	if r.state == api.TaskRunning {
		r.state = api.TaskKilling
	}
	if r.pid != 0 && p.world.drawChance(8) && r.number > 0 {
		return // it ignores every signal but SIGKILL, which the agent sends to the group that it was told of
	}
	p.world.planIn(p.world.drawBetween(0, max(grace, time.Millisecond)), func() {
		if r.alive && !p.dead {
			p.world.truth.noteDeath(r)
			p.tellEnd(r, api.TaskKilled)
		}
	})
}

// tellEnd tells the end of a task whose processes have ended.
func (p *process) tellEnd(r *run, state api.TaskState) {
	if p.dead || r.state.Terminal() {
		return
	}
	p.reportStatus(r, state, api.ReasonNone)
}

// reportStatus numbers a status, and keeps it until it is acknowledged.
func (p *process) reportStatus(r *run, state api.TaskState, reason api.Reason) {
	if r.state != state && !api.MayMove(r.state, state, api.MoverExecutor) {
		return
	}
	r.number++
	r.state = state
	status := protocol.ExecutorStatus{Task: r.task.ID, Number: r.number, State: state, Reason: reason}
	if r.parts > 0 {
		status.Data = []byte{byte(r.parts)}
	}
	if r.pid != 0 {
		status.ProcessGroup, status.ProcessStart = r.pid, uint64(r.pid)
	}
	r.kept = append(r.kept, status)
	p.sendCalls(status)
}

func (p *process) hearAcknowledged(e protocol.ExecutorAcknowledged) {
	r := p.tasks[e.Task]
	if r == nil {
		return
	}
	for len(r.kept) > 0 && r.kept[0].Number <= e.Number {
		r.kept = r.kept[1:]
	}
	if r.state.Terminal() && len(r.kept) == 0 {
		r.taken = true
		delete(p.tasks, e.Task)
		// What a built-in executor could not begin was DROPPED: its ID may be launched again.
		p.endings[e.Task] = !p.builtin || r.pid != 0 || r.state != api.TaskFailed
	}
}

// shutDown kills the tasks that run, waits for their ends and the acknowledgements, and then ends.
func (p *process) shutDown(grace time.Duration) {
	if p.closing {
		return
	}
	p.closing = true
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if r := p.tasks[id]; r.alive {
			p.killTask(r, grace)
		}
	}
	if p.world.drawChance(10) {
		return // it hangs; the agent will end it
	}
	p.world.planIn(p.world.drawBetween(grace/2, grace), func() {
		p.reapTasks()
		for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
			p.tellEnd(p.tasks[id], api.TaskKilled)
		}
		p.world.planIn(p.world.drawPause(), func() { p.endProcess("it was shut down") })
	})
}
