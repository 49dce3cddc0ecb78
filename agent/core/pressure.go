package core

import (
	"cmp"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Pressure is real use of all tasks together, firm and revocable, that leaves next to
// nothing of the agent. Then revocable tasks end, the youngest first, until the rest uses
// no more than what is well below (R28): the space between the two lines keeps it from
// swinging, and no task ends that need not.
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

// pressure is what the samples so far say.
type pressure struct {
	// on holds from the first line until use is below the second: no revocable task is
	// taken on meanwhile.
	on      bool
	bursts  int    // samples above the line in processors, one after the other
	revoked uint64 // tasks, by this process
	watched bool   // a timer asks for samples while no leader does
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

// sampled takes a sample, and revokes tasks if it says so.
func (c *Core) sampled(w Sampled) {
	c.usage, c.sampling = &w.Usage, false
	used, total := c.stillUsed(), amountsOf(c.config.Agent.Resources)
	p := &c.pressure
	if over(used.cpu, total.cpu, pressureBegins) {
		p.bursts++
	} else {
		p.bursts = 0
	}
	cpu, mem := p.bursts >= pressureSamples, over(used.mem, total.mem, pressureBegins)
	switch {
	case cpu || mem:
		p.on, p.bursts = true, 0
		c.revoke(used, total, cpu, mem)
	case !over(used.cpu, total.cpu, pressureEnds) && !over(used.mem, total.mem, pressureEnds):
		p.on = false
	}
}

// stillUsed is what the last sample says without tasks that have ended since, or are
// being killed: they make room already.
func (c *Core) stillUsed() amounts {
	var used amounts
	for _, use := range c.usage.Executors { // order: irrelevant because it is a sum
		used.cpu, used.mem = used.cpu+use.CPU, used.mem+use.Mem
	}
	for ref, use := range c.usage.Tasks { // order: irrelevant because it is a sum
		if t := c.state.tasks[ref]; t == nil || t.ended() || t.kill != nil {
			used.sub(amounts{use.CPU, use.Mem})
		}
	}
	return used
}

// revoke kills revocable tasks, the youngest first, until what is short is there. Those
// that use nothing of it are left alone.
func (c *Core) revoke(used, total amounts, cpu, mem bool) {
	for _, t := range slices.Backward(c.state.tasksInOrder()) {
		if !cpu && !mem {
			return
		}
		if !t.revocable() || t.ended() || t.kill != nil {
			continue
		}
		use := c.usedBy(t)
		if (!cpu || use.cpu == 0) && (!mem || use.mem == 0) {
			continue
		}
		c.log("task is revoked", field("task", t.ref.String()), field("cpus", shareOf(used.cpu, total.cpu)), field("mem", shareOf(used.mem, total.mem)))
		c.storeKill(t, min(cmp.Or(t.launch.Task.KillGrace, c.config.KillGrace), c.config.KillGrace), api.ReasonRevoked)
		c.pressure.revoked++
		used.sub(use)
		cpu = cpu && over(used.cpu, total.cpu, pressureEnds)
		mem = mem && over(used.mem, total.mem, pressureEnds)
	}
}

func shareOf(used, total api.Milli) string { return used.String() + " of " + total.String() + " used" }

// usedBy is what the task uses by the last sample; of one that has no processes of its
// own, what it asked for.
func (c *Core) usedBy(t *task) amounts {
	if use, sampled := c.usage.Tasks[t.ref]; sampled {
		return amounts{use.CPU, use.Mem}
	}
	if t.latest.State != api.TaskRunning || t.group.PID != 0 {
		return amounts{}
	}
	return amountsOf(t.launch.Resources)
}

// revocable says that the task may be ended to make room.
func (t *task) revocable() bool { return t.launch.Resources.HasRevocable() }

// watchPressure sees to it that samples come while revocable tasks run, also without a
// leader: its heartbeats ask for them otherwise.
func (c *Core) watchPressure() {
	if !c.pressure.watched {
		c.pressure.watched = true
		c.in(c.leader.interval, timer{kind: timerSample})
	}
}

func (c *Core) sampleDue() {
	c.pressure.watched = false
	for _, t := range c.state.tasks { // order: irrelevant because one is enough
		if t.revocable() && !t.ended() {
			if !c.leader.registered {
				c.sample()
			}
			c.watchPressure()
			return
		}
	}
}
