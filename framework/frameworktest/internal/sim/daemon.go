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

func (d *daemon) step(what agentcore.Happening) {
	if d.dead {
		return
	}
	if d.world.story != nil {
		d.world.say(d.machine.name, "< %s", describe(what))
	}
	d.life.Step(d.Now(), what)
	d.stepped()
}

// stepped does what follows the effects of a step.
func (d *daemon) stepped() {
	if d.dead {
		return
	}
	if d.life.Over() {
		d.forget()
		return
	}
	d.write()
	if d.line != nil {
		d.line.sendCalls()
	}
	d.arm()
}

func (d *daemon) arm() {
	if !d.dead {
		d.wakeAt(d.core.Wake(), &d.machine.clock, d.world, d.world.in, func() { d.step(agentcore.Woken{}) })
	}
}

// Perform performs an effect, unless the process has ended meanwhile.
func (d *daemon) Perform(effect agentcore.Effect) {
	w, m := d.world, d.machine
	if d.dead {
		return
	}
	w.truth.performs(d, effect)
	switch e := effect.(type) {
	case agentcore.Checkpoint:
		d.waiting.records = append(d.waiting.records, e.Record)
		d.waiting.number = e.Number
		d.records++
		if w.story != nil {
			w.say(m.name, "  record %d: %s", e.Number, describe(e.Record))
		}
		w.truth.recorded(m, e.Record)
	case agentcore.ToLeader:
		if d.line != nil && d.line.own == e.Conn {
			if _, is := e.Call.(protocol.AgentReport); is {
				d.registered = true
			}
			w.truth.toldLeader(d, e.Call)
			d.line.calls = append(d.line.calls, m.invented(e.Call))
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
		w.say(m.name, "a new agent begins: %s", e.Why)
	case agentcore.Stop:
		d.stop(e.Err)
	case agentcore.Log:
		if w.story != nil {
			w.say(m.name, "%s %v", e.Message, e.Fields)
		}
	case agentcore.Work:
		d.work(e)
	}
}

// work performs the effects that concern processes and folders.
func (d *daemon) work(work agentcore.Work) {
	w, m := d.world, d.machine
	switch e := work.(type) {
	case agentcore.StartExecutor:
		d.starts[e.Run] = true
		span := w.pause()
		if w.chance(4) || m.doomed {
			span = w.between(0, 2*time.Second)
		}
		m.startsExecutor()
		w.in(span, func() { d.fork(e) })
	case agentcore.ReleaseExecutor:
		if p := m.processOf(e.Run); p != nil && p.gated {
			p.open()
		}
	case agentcore.AbandonExecutor:
		if _, under := d.starts[e.Run]; under {
			d.starts[e.Run] = false
		} else if p := m.processOf(e.Run); p != nil && p.gated {
			p.end("abandoned at its gate")
		}
	case agentcore.KillGroups:
		w.truth.executorKilled(d, e)
		w.in(w.pause(), func() {
			if d.dead {
				return
			}
			for _, p := range m.processes {
				if p.run == e.Run {
					p.reap()
					p.end("SIGKILL")
				}
			}
			w.in(w.pause(), func() { d.step(agentcore.GroupsGone{Run: e.Run}) })
		})
	case agentcore.KillGroup:
		w.in(w.pause(), func() {
			for _, p := range m.processes {
				p.killGroup(e.Group)
			}
		})
	case agentcore.PrepareTask:
		span := w.pause()
		if len(e.URIs) > 0 && w.chance(2) {
			span = w.between(0, 4*time.Second)
		}
		w.in(span, func() {
			done := agentcore.TaskPrepared{Task: e.Task}
			if w.chance(6) {
				done.Reason, done.Message = api.ReasonFetchFailed, "the files are not there"
			}
			if !d.dead {
				m.stored.prepared[e.Task] = done.Reason
			}
			d.step(done)
		})
	case agentcore.Sample:
		w.in(w.pause(), func() { d.step(agentcore.Sampled{Usage: d.sample(e.Targets)}) })
	case agentcore.CreateVolume:
		m.createVolume(e)
	case agentcore.DestroyVolume:
		d.destroyVolume(e)
	case agentcore.DropSecrets:
		delete(d.secrets, e.Task)
	case agentcore.TaskEnded, agentcore.RemoveFolder: // nobody reads output here, and there are no folders
	}
}

// sample reports that everything uses next to nothing, and on a crowded machine as much as the whole machine has.
func (d *daemon) sample(targets []agentcore.Target) protocol.UsageReport {
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

// write lets the writer take what waits, unless it is busy.
func (d *daemon) write() {
	if d.writing || d.waiting.empty() || d.dead {
		return
	}
	if d.world.random.IntN(200) == 0 {
		d.waiting.compact, d.waiting.records = d.core.Records(), nil
	}
	d.group, d.waiting, d.writing = d.waiting, group{}, true
	d.world.in(d.world.pause(), func() {
		if d.dead {
			return
		}
		number := d.group.number
		d.tear(len(d.group.records))
		d.writing = false
		d.step(agentcore.Checkpointed{Number: number})
		d.write()
	})
}

// writes reports whether such a record is on its way to the disk.
func (d *daemon) writes(is func(agentcore.Record) bool) bool {
	return slices.ContainsFunc(d.group.records, is)
}

// unwritten returns how many records are on their way to the disk.
func (d *daemon) unwritten() int { return len(d.group.records) }

// tear puts the first records of the group on the disk; if the write is not torn, these are all.
func (d *daemon) tear(records int) {
	m := d.machine
	if d.group.compact != nil {
		m.disk = slices.Clone(d.group.compact)
		m.stored.compacted(m.disk)
	}
	m.disk = append(m.disk, d.group.records[:records]...)
	m.stored.take(d.group.records[:records])
	d.group = group{}
}

// The leader.

// seek looks for the leader again after a pause.
func (d *daemon) seek() {
	if d.seeking || d.dead {
		return
	}
	d.seeking = true
	d.world.in(d.world.between(10*time.Millisecond, 500*time.Millisecond), func() {
		d.seeking = false
		if !d.dead && d.line == nil && !d.connect() {
			d.seek()
		}
	})
}

// connect opens a stream to the leader, or to a former leader that still believes that it leads.
func (d *daemon) connect() bool {
	to := d.world.quorum.answering()
	if to == nil || d.machine.isolated {
		return false
	}
	d.conns++
	line := &agentLine{stream: newStream(d.world), leader: to, daemon: d, own: d.conns}
	line.stream.atServer = line.closedAtLeader
	line.stream.atClient = func(err *api.Error) { d.leaderClosed(line, err) }
	d.line = line
	d.step(agentcore.LeaderOpened{Conn: line.own})
	return true
}

func (d *daemon) hear(line *agentLine, batch protocol.AgentEvents) {
	if d.dead {
		return
	}
	if d.world.story != nil {
		for _, event := range batch.Events {
			d.world.say(d.machine.name, "hears term %s session %d: %s", batch.Term, batch.Session, describe(event))
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
	d.step(agentcore.LeaderSaid{Conn: line.own, Batch: batch})
	d.world.truth.heardOf(d, batch.Term, known, d.records > records)
}

// hearFull handles the events of a batch one by one, one of them while the disk is full.
func (d *daemon) hearFull(line *agentLine, batch protocol.AgentEvents) {
	for _, event := range batch.Events {
		launch, is := event.(protocol.LaunchTask)
		d.step(agentcore.DiskRoom{Full: is && launch.Task.ID == d.full})
		single := batch
		single.Events = []protocol.AgentEvent{event}
		d.step(agentcore.LeaderSaid{Conn: line.own, Batch: single})
	}
	d.step(agentcore.DiskRoom{})
}

func (d *daemon) leaderClosed(line *agentLine, err *api.Error) {
	if d.dead {
		return
	}
	if d.line == line {
		d.line, d.machine.reported = nil, time.Time{}
	}
	d.refusedFor(err)
	d.step(agentcore.LeaderClosed{Conn: line.own, Removed: api.Is(err, api.Removed)})
	if !d.dead {
		d.seek()
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
			d.stop(err)
		}
	case api.Unavailable, api.NotLeader:
	default:
		m.refused = time.Time{}
	}
	if d.registered && d.line != nil {
		m.refused = time.Time{}
	}
}

// stop ends the agent's process with an error for a person. Only an agent with a copied folder may end like this.
func (d *daemon) stop(err *api.Error) {
	if !d.machine.twin {
		d.world.breaks("the agent on %s gives up: %v", d.machine.name, err)
	}
	d.world.say(d.machine.name, "the agent gives up: %v", err)
	d.machine.kill()
}

// forget begins a new agent with an empty disk, in the same process.
func (d *daemon) forget() {
	m := d.machine
	d.dead, m.daemon, m.disk = true, nil, nil
	m.stored = newStored()
	m.sweepVolumes(func(api.VolumeID) bool { return false })
	m.leave(d)
	d.world.in(d.world.pause(), func() {
		if m.daemon == nil {
			m.live(true)
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

// fork makes the child process, which waits at its gate.
func (d *daemon) fork(e agentcore.StartExecutor) {
	wanted := d.starts[e.Run]
	delete(d.starts, e.Run)
	if d.dead {
		return
	}
	w, m := d.world, d.machine
	if !wanted || w.chance(30) {
		d.step(agentcore.ExecutorFailed{Run: e.Run, Reason: api.ReasonLaunchFailed, Message: "it could not be forked"})
		return
	}
	m.pids++
	p := &process{
		world: w, machine: m, parent: d, run: e.Run, pid: m.pids, token: fmt.Sprintf("token-%d", m.pids), gated: true,
		builtin: e.Builtin, tasks: map[api.TaskID]*run{}, endings: map[api.TaskID]bool{}, recovery: m.config.RecoveryTimeout,
	}
	m.processes = append(m.processes, p)
	hash := sha256.Sum256([]byte(p.token))
	d.step(agentcore.ExecutorForked{Run: e.Run, Process: p.process(), TokenHash: hex.EncodeToString(hash[:])})
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
				line.process.hear(line, event)
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
