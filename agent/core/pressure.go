package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// There is pressure when all tasks together, firm and revocable ones, really use nearly all that the agent has. Then
// revocable tasks are killed, the youngest first, until the rest uses clearly less (R28). The distance between the two
// limits keeps this from switching back and forth, and no more tasks are killed than necessary.
const (
	// pressureBegins and pressureEnds are percentages of the agent's total. Use of processors can't exceed the total,
	// so the first limit lies below 100.
	pressureBegins = 95
	pressureEnds   = 90
	// pressureSamples is how many samples in a row must show processors above the limit, because a burst passes by
	// itself. For memory one sample is enough: used memory does not come back by itself.
	pressureSamples = 2
)

// pressure is the room that watches how much of the agent is really used, and chooses the revocable tasks that must
// end. It kills none itself: Core.takeSample does.
type pressure struct {
	*base
	leader  *leader
	reports *reports
	// on holds from when use exceeds the first limit until it is below the second. No revocable task is accepted
	// meanwhile.
	on      bool
	bursts  int    // how many samples in a row were above the limit in processors
	revoked uint64 // how many tasks were revoked by this process
	watched bool   // a timer asks for samples while there is no session with a leader
}

// revocation is a task that has to make room, and what was used when it was chosen.
type revocation struct {
	task      *task
	cpus, mem string
}

// amounts are amounts of cpus and mem.
type amounts struct{ cpu, mem api.Milli }

func amountsOf(resources api.Resources) amounts {
	return amounts{resources.Scalar("cpus"), resources.Scalar("mem")}
}

func (a *amounts) sub(b amounts) { a.cpu, a.mem = a.cpu-b.cpu, a.mem-b.mem }

// over reports whether used is more than a percentage of the total. A resource of which the agent has none never counts
// as used up.
func over(used, total api.Milli, percent api.Milli) bool {
	return total > 0 && used*100 > total*percent
}

func shareOf(used, total api.Milli) string { return used.String() + " of " + total.String() + " used" }

// judgeSample judges the newest sample and returns the tasks that have to end because of it.
func (p *pressure) judgeSample() (revoked []revocation) {
	used, total := p.stillUsed(), amountsOf(p.config.Agent.Resources)
	if over(used.cpu, total.cpu, pressureBegins) {
		p.bursts++
	} else {
		p.bursts = 0
	}
	cpu, mem := p.bursts >= pressureSamples, over(used.mem, total.mem, pressureBegins)
	switch {
	case cpu || mem:
		p.on, p.bursts = true, 0
		revoked = p.chooseRevoked(used, total, cpu, mem)
	case !over(used.cpu, total.cpu, pressureEnds) && !over(used.mem, total.mem, pressureEnds):
		p.on = false
	}
	return revoked
}

// stillUsed is what the last sample says, without tasks that have ended since or are being killed: those make room
// already.
func (p *pressure) stillUsed() amounts {
	var used amounts
	for _, use := range p.reports.usage.Executors { // order: irrelevant because it is a sum
		used.cpu, used.mem = used.cpu+use.CPU, used.mem+use.Mem
	}
	for ref, use := range p.reports.usage.Tasks { // order: irrelevant because it is a sum
		if t := p.state.tasks[ref]; t == nil || t.ended() || t.kill != nil {
			used.sub(amounts{use.CPU, use.Mem})
		}
	}
	return used
}

// chooseRevoked chooses revocable tasks, the youngest first, until enough of what is short is free without them. Tasks
// that use nothing of what is short are left alone.
func (p *pressure) chooseRevoked(used, total amounts, cpu, mem bool) (revoked []revocation) {
	for _, t := range slices.Backward(p.state.tasksInOrder()) {
		if !cpu && !mem {
			break
		}
		if !t.revocable() || t.ended() || t.kill != nil {
			continue
		}
		use := p.usedBy(t)
		if (!cpu || use.cpu == 0) && (!mem || use.mem == 0) {
			continue
		}
		revoked = append(revoked, revocation{t, shareOf(used.cpu, total.cpu), shareOf(used.mem, total.mem)})
		p.revoked++
		used.sub(use)
		cpu = cpu && over(used.cpu, total.cpu, pressureEnds)
		mem = mem && over(used.mem, total.mem, pressureEnds)
	}
	return revoked
}

// usedBy returns what the task uses by the last sample. For a running task without processes of its own it returns what
// the task asked for.
func (p *pressure) usedBy(t *task) amounts {
	if use, sampled := p.reports.usage.Tasks[t.ref]; sampled {
		return amounts{use.CPU, use.Mem}
	}
	if t.latest.State != api.TaskRunning || t.group.PID != 0 {
		return amounts{}
	}
	return amountsOf(t.launch.Resources)
}

// watchPressure makes sure that samples are taken while revocable tasks run, also without a session with a leader. In a
// session the heartbeats ask for them.
func (p *pressure) watchPressure() {
	if !p.watched {
		p.watched = true
		p.wakeIn(p.leader.interval, timer{kind: timerSample})
	}
}

// sampleDue asks for a sample if there is no session with a leader, and sets the next timer while a revocable task
// runs.
func (p *pressure) sampleDue() {
	p.watched = false
	for _, t := range p.state.tasks { // order: irrelevant because one is enough
		if t.revocable() && !t.ended() {
			if !p.leader.registered {
				p.reports.askSample()
			}
			p.watchPressure()
			return
		}
	}
}
