package sim

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/agent/checkpoint"
	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/life"
	"github.com/tenderhq/tender/api"
)

type agentConn = agentcore.Conn

// machine is a node: everything that outlives its agent's process.
type machine struct {
	world     *World
	name      string
	config    agentcore.Config
	boots     int
	disk      []agentcore.Record
	processes []*process
	pids      int
	lives     int     // number of agents so far, for their nonces
	daemon    *daemon // nil: the agent does not run
	isolated  bool    // it can't be reached, and reaches nobody
	full      bool
	twin      bool // its folder is a copy, so it may be refused
	clock     timepiece
	refused   time.Time // since when it is refused for good; zero: it is not refused
	folders   map[api.VolumeID]*folder
	stored    *stored
	whole     api.Resources // what it has when nothing is broken
	mischief
	reported time.Time // when its leader had its report; zero: it has no session
}

// mischief is what is planned with a machine's agent.
type mischief struct {
	lies   bool      // it reports what is not there
	doomed bool      // it is killed when it next starts an executor
	load   api.Milli // how much of a processor each task there uses beside next to nothing
}

// addMachine makes a node whose agent is not yet started.
func (w *World) addMachine(name string, resources api.Resources) *machine {
	m := &machine{world: w, name: name, boots: 1, folders: map[api.VolumeID]*folder{}, stored: newStored(), whole: resources, clock: timepiece{drift: w.drawDrift()}}
	m.config = agentcore.Config{
		Agent: api.Agent{Hostname: name, Resources: resources}, Version: "v1", Sandboxes: "/s", RecoveryTimeout: 15 * time.Minute,
	}
	w.machines = append(w.machines, m)
	return m
}

func (m *machine) bootID() string { return fmt.Sprintf("%s-boot-%d", m.name, m.boots) }

// startAgent starts the agent with what is on the disk.
func (m *machine) startAgent() {
	if m.daemon == nil {
		m.beginLife(false)
	}
}

// beginLife begins one life of an agent's core; the process may have had others before (R16).
func (m *machine) beginLife(registered bool) {
	m.lives++
	d := &daemon{machine: m, world: m.world, registered: registered, executors: map[agentConn]*executorLine{}, starts: map[agentcore.Run]bool{}, secrets: map[api.TaskRef]bool{}}
	m.daemon = d
	records, err := checkpoint.Reread(m.disk)
	if err != nil {
		m.world.breakStory("the agent on %s can't read what it has written: %v", m.name, err)
		return
	}
	d.core = agentcore.New(m.config, records)
	m.world.truth.readDisk(m)
	m.world.tellStory(m.name, "agent starts on %d records", len(m.disk))
	started := agentcore.Started{BootID: m.bootID(), Nonce: api.Nonce(fmt.Sprintf("%s-nonce-%d", m.name, m.lives))}
	sameBoot := d.core.Identity().BootID == m.bootID()
	for _, run := range d.core.Runs() {
		if p := m.processOf(run.Run); p != nil && sameBoot && p.pid == run.Process.PID {
			started.Alive = append(started.Alive, run.Run)
		}
	}
	m.sweepVolumes(d.core.HasVolume)
	d.life = life.New(d.core, d)
	d.life.Begin(started, func() {})
	for _, run := range started.Alive {
		m.processOf(run).parent = d
	}
	d.followStep()
	d.seekLeader()
}

func (m *machine) processOf(run agentcore.Run) *process {
	for _, p := range m.processes {
		if p.run == run && !p.dead {
			return p
		}
	}
	return nil
}

// killAgent ends the agent's process like kill -9. Of what it was about to write, the first part is on the disk; it may end
// after any record.
func (m *machine) killAgent() {
	if m.daemon != nil {
		m.killAfter(m.world.random.IntN(m.daemon.countUnwritten() + 1))
	}
}

// killAfter ends the agent's process after this many of the waiting records were written.
func (m *machine) killAfter(records int) {
	d := m.daemon
	if d == nil {
		return
	}
	m.daemon, d.dead = nil, true
	d.tearWrite(records)
	m.world.tellStory(m.name, "agent is killed; %d records are on disk", len(m.disk))
	m.leaveStreams(d)
}

// leaveStreams ends the streams of an agent's process, and the starts of executors that it had begun.
func (m *machine) leaveStreams(d *daemon) {
	m.reported = time.Time{}
	if d.line != nil {
		d.line.stream.tear()
	}
	for _, line := range d.executorsInOrder() {
		line.stream.tear()
	}
	for _, p := range m.processes {
		if p.gated && p.parent == d {
			p.endProcess("its agent ended before it was let go") // the end of the pipe ends it (R10)
		}
	}
}

// rebootMachine ends everything that runs on the machine.
func (m *machine) rebootMachine() {
	m.killAgent()
	m.boots++
	m.world.tellStory(m.name, "reboots")
	for _, p := range m.processes {
		p.reapTasks()
		p.endProcess("reboot")
	}
	m.processes = nil
}

// cutOff cuts the machine off, without anybody noticing at once.
func (m *machine) cutOff() {
	m.isolated = true
	m.world.tellStory(m.name, "is isolated")
	if m.daemon != nil && m.daemon.line != nil {
		m.daemon.line.stream.silence()
	}
}

func (m *machine) joinAgain() {
	m.isolated = false
	m.world.tellStory(m.name, "is reachable again")
}

// breakStream breaks the agent's stream.
func (m *machine) breakStream() {
	if m.daemon != nil && m.daemon.line != nil {
		m.world.tellStory(m.name, "the stream to the leader breaks")
		m.daemon.line.stream.tear()
	}
}

func (m *machine) fillDisk(full bool) {
	m.full = full
	if m.daemon != nil {
		m.daemon.stepCore(agentcore.DiskRoom{Full: full})
	}
}
