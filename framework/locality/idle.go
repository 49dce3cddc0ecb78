package locality

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
)

// idle is the room that a job has let pass and that nobody else has used since, by agent.
type idle struct {
	rooms map[api.AgentID]room
	spent time.Duration // idle time of rooms that are used by now: for each, its tasks times how long it was idle
}

// room is what a job has let pass on one agent.
type room struct {
	tasks int       // how many tasks it would have held
	since time.Time // when it was let pass
	until time.Time // its offer should come again before this; if it does not, others use the room
}

// idleMargin is how much later than the end of its filter an offer may come again.
const idleMargin = time.Second

// noteIdle notes for each job the room that it leaves in the bin although it has a task that fits there.
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

// roomFor returns how many tasks of this size fit, judged by scalar amounts only; at least 1 and at most `most`.
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

// taken notes that the agent no longer has room that the job lets pass.
func (i *idle) taken(agent api.AgentID, now time.Time) {
	if room, was := i.rooms[agent]; was {
		i.spent += room.time(now)
		delete(i.rooms, agent)
	}
}

// none reports whether no room is idle. It first forgets the rooms that others must be using by now.
func (i *idle) none(now time.Time) bool {
	for agent, room := range i.rooms { // order: irrelevant because each is judged by itself
		if now.After(room.until) {
			i.taken(agent, now)
		}
	}
	return len(i.rooms) == 0
}

// end forgets all rooms, because the job wants nothing any more.
func (i *idle) end(now time.Time) {
	for agent := range i.rooms { // order: irrelevant because all go
		i.taken(agent, now)
	}
}

// total returns how long room has been idle so far, summed over the tasks that it would have held.
func (i *idle) total(now time.Time) time.Duration {
	sum := i.spent
	for _, room := range i.rooms { // order: irrelevant because it is a sum
		sum += room.time(now)
	}
	return sum
}

func (r room) time(now time.Time) time.Duration {
	if now.After(r.until) {
		now = r.until
	}
	return time.Duration(r.tasks) * now.Sub(r.since)
}
