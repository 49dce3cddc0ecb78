package locality

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// idle is room that a job has let pass, by agent.
type idle struct {
	rooms map[api.AgentID]room
	spent time.Duration // of those that are over: each task that had room, for as long
}

// room is what a job has let pass on an agent.
type room struct {
	tasks int       // that had room
	since time.Time // it was let pass
	until time.Time // its offer should have come again by then, unless others use it
}

// idleMargin is how much later than asked for an offer may come again.
const idleMargin = time.Second

// noteIdle notes for each job what it leaves in the bin though it has a task for it.
func (d *Delay) noteIdle(bin *pack.Bin, now time.Time) {
	var until time.Time
	for _, j := range d.order {
		p := j.all.fitting(bin, d.config.Allow)
		if p == nil {
			j.idle.taken(bin.Offer.Agent, now)
			continue
		}
		if until.IsZero() {
			until = now.Add(max(d.Refuse(bin), api.DefaultRefuse) + idleMargin)
		}
		j.idle.passed(bin.Offer.Agent, room{roomFor(bin.Left, p.ask, j.queued), now, until}, now)
	}
}

// roomFor counts how many such tasks fit, as far as amounts tell.
func roomFor(left, ask api.Resources, most int) int {
	for _, item := range ask.Items() {
		if item.Scalar > 0 {
			most = min(most, int(left.Scalar(item.Name)/item.Scalar))
		}
	}
	return max(most, 1)
}

func (i *idle) passed(agent api.AgentID, now room, at time.Time) {
	i.taken(agent, at)
	if i.rooms == nil {
		i.rooms = make(map[api.AgentID]room)
	}
	i.rooms[agent] = now
}

// taken notes that the agent has no room any more that the job lets pass.
func (i *idle) taken(agent api.AgentID, now time.Time) {
	if one, was := i.rooms[agent]; was {
		i.spent += one.time(now)
		delete(i.rooms, agent)
	}
}

// none reports whether no room is idle, and forgets what others use by now.
func (i *idle) none(now time.Time) bool {
	for agent, one := range i.rooms { // order: irrelevant because each is judged by itself
		if now.After(one.until) {
			i.taken(agent, now)
		}
	}
	return len(i.rooms) == 0
}

// end forgets all of it: the job wants nothing any more.
func (i *idle) end(now time.Time) {
	for agent := range i.rooms { // order: irrelevant because all go
		i.taken(agent, now)
	}
}

// total is what was idle so far.
func (i *idle) total(now time.Time) time.Duration {
	sum := i.spent
	for _, one := range i.rooms { // order: irrelevant because it is a sum
		sum += one.time(now)
	}
	return sum
}

func (r room) time(now time.Time) time.Duration {
	if now.After(r.until) {
		now = r.until
	}
	return time.Duration(r.tasks) * now.Sub(r.since)
}
