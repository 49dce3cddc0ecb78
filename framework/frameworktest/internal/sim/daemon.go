package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/life"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// daemon is one life of an agent: a shell around the agent's core, without goroutines.
type daemon struct {
	machine    *machine
	world      *World
	core       *agentcore.Core
	life       *life.Life
	dead       bool
	registered bool // this process was in a session before
	conns      agentConn
	line       *agentLine // stream to the leader; nil: none
	seeking    bool
	executors  map[agentConn]*executorLine
	starts     map[agentcore.Run]bool // starts under way; true: still wanted
	secrets    map[api.TaskRef]bool   // tasks whose secrets it was given
	full       api.TaskID             // when its launch comes the disk is full; after that it has room again

	group   group // what is being written
	waiting group
	writing bool
	waker
	records uint64 // how many were to be written
}

// group is what the writer writes at once.
type group struct {
	compact []agentcore.Record // says the same as all records before it; nil: nothing is compacted
	records []agentcore.Record
	number  uint64
}

func (g group) empty() bool { return g.compact == nil && len(g.records) == 0 }

// Now returns what the machine's clocks show.
func (d *daemon) Now() time.Time { return d.machine.clock.read(d.world) }

// Room says whether the machine's disk is full.
func (d *daemon) Room() agentcore.DiskRoom { return agentcore.DiskRoom{Full: d.machine.full} }

func (d *daemon) stepCore(what agentcore.Happening) {
	if d.dead {
		return
	}
	if d.world.story != nil {
		d.world.tellStory(d.machine.name, "< %s", describe(what))
	}
	d.life.Step(d.Now(), what)
	d.followStep()
}

// followStep does what follows the effects of a step.
func (d *daemon) followStep() {
	if d.dead {
		return
	}
	if d.life.Over() {
		d.beginAnew()
		return
	}
	d.writeRecords()
	if d.line != nil {
		d.line.sendCalls()
	}
	d.armWaker()
}

func (d *daemon) armWaker() {
	if !d.dead {
		d.wakeAt(d.core.Wake(), &d.machine.clock, d.world, d.world.planIn, func() { d.stepCore(agentcore.Woken{}) })
	}
}

// Perform performs an effect, unless the process has ended meanwhile.
func (d *daemon) Perform(effect agentcore.Effect) {
	w, m := d.world, d.machine
	if d.dead {
		return
	}
	w.truth.checkEffect(d, effect)
	switch e := effect.(type) {
	case agentcore.Checkpoint:
		d.waiting.records = append(d.waiting.records, e.Record)
		d.waiting.number = e.Number
		d.records++
		if w.story != nil {
			w.tellStory(m.name, "  record %d: %s", e.Number, describe(e.Record))
		}
		w.truth.checkRecord(m, e.Record)
	case agentcore.ToLeader:
		if d.line != nil && d.line.own == e.Conn {
			if _, is := e.Call.(protocol.AgentReport); is {
				d.registered = true
			}
			w.truth.toldLeader(d, e.Call)
			d.line.calls = append(d.line.calls, m.addLies(e.Call))
		}
	case agentcore.CloseLeader:
		if d.line != nil && d.line.own == e.Conn {
			d.line.sendCalls()
			d.line.stream.closeByClient(errBroken)
		}
	case agentcore.ToExecutor:
		d.toExecutor(e.Conn, e.Event)
	case agentcore.HandOver:
		w.truth.handsOver(d, e.Task, e.Launch.Task)
		d.toExecutor(e.Conn, e.Launch)
	case agentcore.CloseExecutor:
		if line := d.executors[e.Conn]; line != nil {
			line.stream.closeByServer(e.Err)
		}
	case agentcore.Forget:
		w.tellStory(m.name, "a new agent begins: %s", e.Why)
	case agentcore.Stop:
		d.stopForGood(e.Err)
	case agentcore.Log:
		if w.story != nil {
			w.tellStory(m.name, "%s %v", e.Message, e.Fields)
		}
	case agentcore.Work:
		d.performWork(e)
	}
}

// performWork performs the effects that concern processes and folders.
func (d *daemon) performWork(work agentcore.Work) {
	w, m := d.world, d.machine
	switch e := work.(type) {
	case agentcore.StartExecutor:
		d.starts[e.Run] = true
		span := w.drawPause()
		if w.drawChance(4) || m.doomed {
			span = w.drawBetween(0, 2*time.Second)
		}
		m.startsExecutor()
		w.planIn(span, func() { d.forkExecutor(e) })
	case agentcore.ReleaseExecutor:
		if p := m.processOf(e.Run); p != nil && p.gated {
			p.openGate()
		}
	case agentcore.AbandonExecutor:
		if _, under := d.starts[e.Run]; under {
			d.starts[e.Run] = false
		} else if p := m.processOf(e.Run); p != nil && p.gated {
			p.endProcess("abandoned at its gate")
		}
	case agentcore.KillGroups:
		w.truth.executorKilled(d, e)
		w.planIn(w.drawPause(), func() {
			if d.dead {
				return
			}
			for _, p := range m.processes {
				if p.run == e.Run {
					p.reapTasks()
					p.endProcess("SIGKILL")
				}
			}
			w.planIn(w.drawPause(), func() { d.stepCore(agentcore.GroupsGone{Run: e.Run}) })
		})
	case agentcore.KillGroup:
		w.planIn(w.drawPause(), func() {
			for _, p := range m.processes {
				p.killGroup(e.Group)
			}
		})
	case agentcore.PrepareTask:
		span := w.drawPause()
		if len(e.URIs) > 0 && w.drawChance(2) {
			span = w.drawBetween(0, 4*time.Second)
		}
		w.planIn(span, func() {
			done := agentcore.TaskPrepared{Task: e.Task}
			if w.drawChance(6) {
				done.Reason, done.Message = api.ReasonFetchFailed, "the files are not there"
			}
			if !d.dead {
				m.stored.prepared[e.Task] = done.Reason
			}
			d.stepCore(done)
		})
	case agentcore.Sample:
		w.planIn(w.drawPause(), func() { d.stepCore(agentcore.Sampled{Usage: d.sampleUsage(e.Targets)}) })
	case agentcore.CreateVolume:
		m.createVolume(e)
	case agentcore.DestroyVolume:
		d.destroyVolume(e)
	case agentcore.DropSecrets:
		delete(d.secrets, e.Task)
	case agentcore.TaskEnded, agentcore.RemoveFolder: // nobody reads output here, and there are no folders
	}
}

// sampleUsage reports that everything uses next to nothing, and on a crowded machine as much as the whole machine has.
func (d *daemon) sampleUsage(targets []agentcore.Target) protocol.UsageReport {
	usage := protocol.UsageReport{Total: api.Usage{At: d.Now()}, Executors: map[api.ExecutorRef]api.Usage{}, Tasks: map[api.TaskRef]api.Usage{}}
	for _, target := range targets {
		use := api.Usage{At: d.Now(), CPU: 1, Mem: 1}
		for _, task := range target.Tasks {
			its := api.Usage{At: d.Now(), CPU: 1 + d.machine.load, Mem: 1}
			usage.Tasks[api.TaskRef{Framework: target.Executor.Framework, Task: task.Task}] = its
			use.CPU += its.CPU
		}
		usage.Executors[target.Executor] = use
	}
	return usage
}

// The disk.

// writeRecords lets the writer take what waits, unless it is busy.
func (d *daemon) writeRecords() {
	if d.writing || d.waiting.empty() || d.dead {
		return
	}
	if d.world.random.IntN(200) == 0 {
		d.waiting.compact, d.waiting.records = d.core.Records(), nil
	}
	d.group, d.waiting, d.writing = d.waiting, group{}, true
	d.world.planIn(d.world.drawPause(), func() {
		if d.dead {
			return
		}
		number := d.group.number
		d.tearWrite(len(d.group.records))
		d.writing = false
		d.stepCore(agentcore.Checkpointed{Number: number})
		d.writeRecords()
	})
}

// isWriting reports whether such a record is on its way to the disk.
func (d *daemon) isWriting(is func(agentcore.Record) bool) bool {
	return slices.ContainsFunc(d.group.records, is)
}

// countUnwritten returns how many records are on their way to the disk.
func (d *daemon) countUnwritten() int { return len(d.group.records) }

// tearWrite puts the first records of the group on the disk; if the write is not torn, these are all.
func (d *daemon) tearWrite(records int) {
	m := d.machine
	if d.group.compact != nil {
		m.disk = slices.Clone(d.group.compact)
		m.stored.compacted(m.disk)
	}
	m.disk = append(m.disk, d.group.records[:records]...)
	m.stored.addRecords(d.group.records[:records])
	d.group = group{}
}

// The leader.

// seekLeader looks for the leader again after a pause.
func (d *daemon) seekLeader() {
	if d.seeking || d.dead {
		return
	}
	d.seeking = true
	d.world.planIn(d.world.drawBetween(10*time.Millisecond, 500*time.Millisecond), func() {
		d.seeking = false
		if !d.dead && d.line == nil && !d.openStream() {
			d.seekLeader()
		}
	})
}

// openStream opens a stream to the leader, or to a former leader that still believes that it leads.
func (d *daemon) openStream() bool {
	to := d.world.quorum.findAnswering()
	if to == nil || d.machine.isolated {
		return false
	}
	d.conns++
	line := &agentLine{lineEnd: lineEnd{stream: newStream(d.world), leader: to}, daemon: d, own: d.conns}
	line.stream.atServer = func() { to.loseLine(line) }
	line.stream.atClient = func(err *api.Error) { d.leaderClosed(line, err) }
	d.line = line
	d.stepCore(agentcore.LeaderOpened{Conn: line.own})
	return true
}

func (d *daemon) hearEvents(line *agentLine, batch protocol.AgentEvents) {
	if d.dead {
		return
	}
	if d.world.story != nil {
		for _, event := range batch.Events {
			d.world.tellStory(d.machine.name, "hears term %s session %d: %s", batch.Term, batch.Session, describe(event))
		}
	}
	for _, event := range batch.Events {
		d.takesSecrets(event)
		if _, is := event.(protocol.Reported); is {
			d.machine.reported = d.world.now
		}
		if launch, is := event.(protocol.LaunchTask); is && d.full != "" && launch.Task.ID == d.full {
			d.hearFull(line, batch)
			return
		}
	}
	records, known := d.records, d.core.Identity().Term
	d.stepCore(agentcore.LeaderSaid{Conn: line.own, Batch: batch})
	d.world.truth.heardOf(d, batch.Term, known, d.records > records)
}

// hearFull handles the events of a batch one by one, one of them while the disk is full.
func (d *daemon) hearFull(line *agentLine, batch protocol.AgentEvents) {
	for _, event := range batch.Events {
		launch, is := event.(protocol.LaunchTask)
		d.stepCore(agentcore.DiskRoom{Full: is && launch.Task.ID == d.full})
		single := batch
		single.Events = []protocol.AgentEvent{event}
		d.stepCore(agentcore.LeaderSaid{Conn: line.own, Batch: single})
	}
	d.stepCore(agentcore.DiskRoom{})
}

func (d *daemon) leaderClosed(line *agentLine, err *api.Error) {
	if d.dead {
		return
	}
	if d.line == line {
		d.line, d.machine.reported = nil, time.Time{}
	}
	d.refusedFor(err)
	d.stepCore(agentcore.LeaderClosed{Conn: line.own, Removed: api.Is(err, api.Removed)})
	if !d.dead {
		d.seekLeader()
	}
}

// refusedFor notes how long this agent has been refused for good; in the end it stops and asks a person.
func (d *daemon) refusedFor(err *api.Error) {
	m := d.machine
	switch api.KindOf(err) {
	case api.Invalid, api.Denied, api.Exists, api.Unsupported:
		if m.refused.IsZero() {
			m.refused = d.world.now
		}
		if d.world.now.Sub(m.refused) >= 15*time.Second {
			d.stopForGood(err)
		}
	case api.Unavailable, api.NotLeader:
	default:
		m.refused = time.Time{}
	}
	if d.registered && d.line != nil {
		m.refused = time.Time{}
	}
}

// stopForGood ends the agent's process with an error for a person. Only an agent with a copied folder may end like this.
func (d *daemon) stopForGood(err *api.Error) {
	if !d.machine.twin {
		d.world.breakStory("the agent on %s gives up: %v", d.machine.name, err)
	}
	d.world.tellStory(d.machine.name, "the agent gives up: %v", err)
	d.machine.killAgent()
}

// beginAnew begins a new agent with an empty disk, in the same process.
func (d *daemon) beginAnew() {
	m := d.machine
	d.dead, m.daemon, m.disk = true, nil, nil
	m.stored = newStored()
	m.sweepVolumes(func(api.VolumeID) bool { return false })
	m.leaveStreams(d)
	d.world.planIn(d.world.drawPause(), func() {
		if m.daemon == nil {
			m.beginLife(true)
		}
	})
}

// sendCalls sends the calls of one step.
func (line *agentLine) sendCalls() {
	if len(line.calls) == 0 {
		return
	}
	calls := line.calls
	line.calls = nil
	messages, err := wire.AgentCallBatches(calls)
	carry(line.stream, &line.stream.up, messages, err, func(message *apiv1.AgentCalls) (func(), error) {
		heard, err := wire.AgentCallsAfter(0, message)
		return func() { line.hear(heard) }, err
	})
}

// Executors.

// forkExecutor makes the child process, which waits at its gate.
func (d *daemon) forkExecutor(e agentcore.StartExecutor) {
	wanted := d.starts[e.Run]
	delete(d.starts, e.Run)
	if d.dead {
		return
	}
	w, m := d.world, d.machine
	if !wanted || w.drawChance(30) {
		d.stepCore(agentcore.ExecutorFailed{Run: e.Run, Reason: api.ReasonLaunchFailed, Message: "it could not be forked"})
		return
	}
	m.pids++
	p := &process{
		world: w, machine: m, parent: d, run: e.Run, pid: m.pids, token: fmt.Sprintf("token-%d", m.pids), gated: true,
		builtin: e.Builtin, tasks: map[api.TaskID]*run{}, endings: map[api.TaskID]bool{}, recovery: m.config.RecoveryTimeout,
	}
	m.processes = append(m.processes, p)
	hash := sha256.Sum256([]byte(p.token))
	d.stepCore(agentcore.ExecutorForked{Run: e.Run, Process: p.processID(), TokenHash: hex.EncodeToString(hash[:])})
}

func (d *daemon) toExecutor(conn agentConn, event protocol.ExecutorEvent) {
	line := d.executors[conn]
	if line == nil {
		return
	}
	messages, err := wire.ExecutorEventBatches([]protocol.ExecutorEvent{event})
	carry(line.stream, &line.stream.down, messages, err, func(message *apiv1.ExecutorEvents) (func(), error) {
		heard, err := wire.ExecutorEventsFromProto(message)
		return func() {
			for _, event := range heard {
				line.process.hearEvent(line, event)
			}
		}, err
	})
}

func (d *daemon) executorsInOrder() []*executorLine {
	var lines []*executorLine
	for _, conn := range slices.Sorted(maps.Keys(d.executors)) {
		lines = append(lines, d.executors[conn])
	}
	return lines
}
