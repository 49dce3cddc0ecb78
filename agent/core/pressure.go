package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
)

// Pressure is when all tasks together, firm and revocable ones, really use nearly all that the agent has. Then
// revocable tasks end, the youngest first, until the rest uses clearly less (R28). The distance between the two lines
// keeps this from going to and fro, and no more tasks end than have to.
const (
	// pressureBegins and pressureEnds are percents of the agent's total. Processors can't
	// be used to more than all of them, so the first line lies below that.
	pressureBegins = 95
	pressureEnds   = 90
	// pressureSamples is for how many samples, one after the other, processors must be
	// above the line: a burst passes by itself. Memory that is gone does not come back,
	// so one sample is enough.
	pressureSamples = 2
)

// pressure is the room that watches how full the agent really is, and chooses the revocable tasks that are to end. It
// kills none itself: Core.takeSample does.
type pressure struct {
	*base
	leader  *leader
	reports *reports
	// on holds from the first line until use is below the second: no revocable task is
	// taken on meanwhile.
	on      bool
	bursts  int    // samples above the line in processors, one after the other
	revoked uint64 // tasks, by this process
	watched bool   // a timer asks for samples while no leader does
}

// revocation is a task that has to make room, and what was used when it was chosen.
type revocation struct {
	task      *task
	cpus, mem string
}

// amounts are of cpus and mem.
type amounts struct{ cpu, mem api.Milli }

func amountsOf(resources api.Resources) amounts {
	return amounts{resources.Scalar("cpus"), resources.Scalar("mem")}
}

func (a *amounts) sub(b amounts) { a.cpu, a.mem = a.cpu-b.cpu, a.mem-b.mem }

// over reports whether used is above a percent of the total. What an agent has none of
// is never short.
func over(used, total api.Milli, percent api.Milli) bool {
	return total > 0 && used*100 > total*percent
}

func shareOf(used, total api.Milli) string { return used.String() + " of " + total.String() + " used" }

// judgeSample takes the newest sample and names the tasks that have to end because of it.
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

// stillUsed is what the last sample says without tasks that have ended since, or are
// being killed: they make room already.
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

// chooseRevoked chooses revocable tasks, the youngest first, until what is short is there without them. Those that use
// nothing of it are left alone.
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

// usedBy is what the task uses by the last sample; of one that has no processes of its
// own, what it asked for.
func (p *pressure) usedBy(t *task) amounts {
	if use, sampled := p.reports.usage.Tasks[t.ref]; sampled {
		return amounts{use.CPU, use.Mem}
	}
	if t.latest.State != api.TaskRunning || t.group.PID != 0 {
		return amounts{}
	}
	return amountsOf(t.launch.Resources)
}

// watchPressure sees to it that samples come while revocable tasks run, also without a
// leader: its heartbeats ask for them otherwise.
func (p *pressure) watchPressure() {
	if !p.watched {
		p.watched = true
		p.wakeIn(p.leader.interval, timer{kind: timerSample})
	}
}

// sampleDue asks for a sample when no leader does, as long as a revocable task is there.
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
