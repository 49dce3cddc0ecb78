package sim

import (
	agentcore "github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// What an agent says to others has to be on its disk before. The checks here know the disk and what was said, and
// nothing of how the agent decides.

// stored is what is on a machine's disk of what others may rely on.
type stored struct {
	nonce    api.Nonce
	agent    api.AgentID
	term     api.Term
	launched map[api.TaskRef]uint64 // the highest number of a status
	killed   map[api.TaskRef]bool
	gone     map[api.VolumeID]bool // volumes that were forgotten
	starting map[agentcore.Run]bool
	started  map[agentcore.Run]bool
	prepared map[agentcore.TaskLaunch]api.Reason // how the latest preparation of a launch's files has ended; no entry: none has
}

func newStored() *stored {
	return &stored{launched: map[api.TaskRef]uint64{}, killed: map[api.TaskRef]bool{}, gone: map[api.VolumeID]bool{},
		starting: map[agentcore.Run]bool{}, started: map[agentcore.Run]bool{}, prepared: map[agentcore.TaskLaunch]api.Reason{}}
}

func (s *stored) addRecords(records []agentcore.Record) {
	for _, record := range records {
		switch r := record.(type) {
		case agentcore.Identity:
			s.nonce, s.agent, s.term = r.Nonce, r.Agent, r.Term
		case agentcore.TaskLaunched:
			ref := api.TaskRef{Framework: r.Framework, Task: r.Task.ID}
			s.launched[ref] = 0
			delete(s.killed, ref)
		case agentcore.TaskStatus:
			s.launched[r.Status.Ref()] = max(s.launched[r.Status.Ref()], r.Status.Number)
		case agentcore.TaskKilled:
			s.killed[r.Task] = true
		case agentcore.ExecutorStarting:
			s.starting[r.Run] = true
		case agentcore.ExecutorStarted:
			s.started[r.Run] = true
		case agentcore.VolumeKept:
			delete(s.gone, r.Volume.Volume)
		case agentcore.VolumeForgotten:
			s.gone[r.Volume] = true
		default: // nobody relies on the others
		}
	}
}

// compacted takes what a compacted checkpoint says. It says less of what is over, so what was stored before stays.
func (s *stored) compacted(records []agentcore.Record) {
	before := *s
	*s = *newStored()
	s.addRecords(records)
	for ref, number := range before.launched { // order: irrelevant because it fills a map
		s.launched[ref] = max(s.launched[ref], number)
	}
	s.gone, s.prepared = before.gone, before.prepared
}

// toldLeader checks that what the agent tells its leader is on its disk (promise 6).
func (t *truth) toldLeader(d *daemon, call protocol.AgentCall) {
	m, disk := d.machine, d.machine.stored
	early := func(what string, of any) {
		t.world.breakStory("%s tells its leader %s %v before that is on its disk (promise 6)", m.name, what, of)
	}
	switch c := call.(type) {
	case protocol.RegisterAgent:
		if disk.nonce != c.Nonce {
			early("its nonce", c.Nonce)
		}
	case protocol.ReregisterAgent:
		if disk.agent != c.Agent.ID || disk.term.Before(c.Term) {
			early("its identity", c.Agent.ID)
		}
	case protocol.StatusUpdate:
		t.failsToFetch(m, c.Status)
		if c.Status.Number > disk.launched[c.Status.Ref()] {
			early("a status", describe(c.Status))
		}
	case protocol.AgentReport:
		for _, task := range c.Tasks {
			ref := api.TaskRef{Framework: task.Framework, Task: task.Task.ID}
			if task.Status.Number > disk.launched[ref] {
				early("a status", describe(task.Status))
			}
		}
	case protocol.KillTaken:
		if _, holds := t.held[m].tasks[c.TaskRef]; holds && !disk.killed[c.TaskRef] {
			early("that it has the kill of", c.TaskRef)
		}
	case protocol.VolumeDone:
		if d.core.HasVolume(c.Volume) && c.Err == "" && !disk.gone[c.Volume] {
			early("that there is no more volume", c.Volume)
		}
	default: // the others promise nothing
	}
}

// checkEffect checks that nothing is started before that is on the agent's disk (R10).
func (t *truth) checkEffect(d *daemon, effect agentcore.Effect) {
	disk, early := d.machine.stored, ""
	switch e := effect.(type) {
	case agentcore.HandOver:
		if _, is := disk.launched[e.Task.TaskRef]; !is {
			early = "task " + e.Task.String() + " is handed over"
		}
	case agentcore.StartExecutor:
		if !disk.starting[e.Run] {
			early = "executor " + e.Run.Executor.String() + " is started"
		}
	case agentcore.ReleaseExecutor:
		if !disk.started[e.Run] {
			early = "executor " + e.Run.Executor.String() + " is let go"
		}
	default: // the others start nothing
	}
	if early != "" {
		t.world.breakStory("%s: %s before that is on its disk (R10)", d.machine.name, early)
	}
}

// heardOf checks that an older term is not obeyed: nothing is written for it and nothing is done (promise 4).
func (t *truth) heardOf(d *daemon, of, known api.Term, obeyed bool) {
	if of.Before(known) && obeyed {
		t.world.breakStory("the agent on %s obeys term %s, and knows of term %s (promise 4)", d.machine.name, of, known)
	}
}
