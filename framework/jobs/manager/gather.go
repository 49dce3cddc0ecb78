package manager

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/internal/core"
	"github.com/tenderhq/tender/framework/pack"
)

// gather is what is held for one gang until there is room for all of it. Only one gang holds anything at a time, and
// not for longer than its job says: then all of it is given back, and the gang rests while others have their turn. So
// two gangs that each fit alone never wait for each other, whether one manager has them or two.
type gather struct {
	name   string // of the job; "": none
	offers map[api.OfferID]api.Offer
	until  time.Time
	rests  map[string]rest // by job
}

// rest is how long a gang that has given back holds nothing.
type rest struct {
	until time.Time
	times int // that it has given back
}

func newGather() gather {
	return gather{offers: make(map[api.OfferID]api.Offer), rests: make(map[string]rest)}
}

// resting says whether the gang holds nothing now.
func (g *gather) resting(name string, now time.Time) bool { return g.rests[name].until.After(now) }

// anyRests says whether some gang left to others what it is offered.
func (g *gather) anyRests(now time.Time) bool {
	for _, one := range g.rests { // order: irrelevant because one is enough
		if one.until.After(now) {
			return true
		}
	}
	return false
}

// holds says whether the bin is of an offer that is held.
func (g *gather) holds(bin *pack.Bin) bool { return g.offers[bin.Offer.ID].ID != "" }

// free lists the bins that are not held.
func (g *gather) free(bins []*pack.Bin) []*pack.Bin {
	return slices.DeleteFunc(slices.Clone(bins), g.holds)
}

// end gives back what is held, and says what that was.
func (g *gather) end() (held []api.Offer) {
	for _, id := range slices.Sorted(maps.Keys(g.offers)) {
		held = append(held, g.offers[id])
	}
	clear(g.offers)
	g.name, g.until = "", time.Time{}
	return held
}

// restLength differs from gang to gang and from time to time, so that two of them do not keep in step.
func restLength(name string, times int, hold time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash takes what it is given
	_, _ = sum.Write([]byte{byte(times)})
	return hold + time.Duration(float64(hold)*2*float64(sum.Sum32()%1000)/1000)
}

// placeGang assigns all members of a gang, or holds what there is for them.
func (m *Manager) placeGang(e *entry, ask core.Ask, bins []*pack.Bin, now time.Time) {
	g := &m.gather
	if g.name != "" && g.name != e.name {
		return // one after the other
	}
	var held []*pack.Bin
	for _, id := range slices.Sorted(maps.Keys(g.offers)) {
		held = append(held, pack.Bins([]api.Offer{g.offers[id]})...)
	}
	task, is := e.master.Peek(ask, "")
	if !is {
		return
	}
	all := append(held, bins...)
	members, used := fitGang(e, ask, task, all)
	switch {
	case len(members) == ask.Count:
		m.assignGang(e, ask, members, used, now)
	case g.resting(e.name, now) || len(members) == 0:
	default:
		for _, bin := range used {
			if len(bin.Tasks) == 0 { // no other job has a part of it
				g.offers[bin.Offer.ID] = bin.Offer
			}
		}
		if g.name == "" && len(g.offers) > 0 {
			g.name, g.until = e.name, now.Add(time.Duration(e.master.Job.Gang.Gather))
		}
	}
}

// member is where a member of a gang would be.
type member struct {
	bin  *pack.Bin
	task api.Task // as the bin would take it
}

// fitGang looks for room for as many members as there is, and names the bins that it is in. It changes none of them.
func fitGang(e *entry, ask core.Ask, task api.Task, bins []*pack.Bin) (members []member, used []*pack.Bin) {
	trial := make([]*pack.Bin, len(bins))
	for i, bin := range bins {
		trial[i] = &pack.Bin{Offer: bin.Offer, Left: bin.Left, Tasks: slices.Clone(bin.Tasks)}
	}
	places := make(map[string]int)
	for range ask.Count {
		best, least := -1, 0
		for i, bin := range trial {
			if !ask.Task.Fits(bin.Offer) || !bin.Fits(task) {
				continue
			}
			there := 0
			if ask.Task.Spread != "" {
				there = places[ask.Task.Spread.OfOffer(bin.Offer)]
			}
			if (ask.Task.Most == 0 || there < ask.Task.Most) && (best < 0 || there < least) {
				best, least = i, there
			}
		}
		if best < 0 {
			break
		}
		bin := trial[best]
		bin.Put(task)
		if ask.Task.Spread != "" {
			places[ask.Task.Spread.OfOffer(bin.Offer)]++
		}
		members = append(members, member{bins[best], bin.Tasks[len(bin.Tasks)-1]})
		if !slices.Contains(used, bins[best]) {
			used = append(used, bins[best])
		}
	}
	return members, used
}

// assignGang has all members dispatched. Of what was held the rest is given back.
func (m *Manager) assignGang(e *entry, ask core.Ask, members []member, used []*pack.Bin, now time.Time) {
	assigned := core.AssignedGang{SubJob: ask.SubJob, Version: ask.Version}
	for _, one := range members {
		place := ""
		if ask.Task.Spread != "" {
			place = ask.Task.Spread.OfOffer(one.bin.Offer)
		}
		assigned.Members = append(assigned.Members, core.Assigned{Agent: one.bin.Offer.Agent, Hostname: one.bin.Offer.Hostname, Place: place,
			Ports: maps.Clone(one.task.Ports)})
	}
	m.step(e, now, assigned)
	for i, task := range e.master.GangTasks(ask.SubJob) {
		task.Ports, task.Resources = members[i].task.Ports, members[i].task.Resources
		members[i].bin.Put(task)
	}
	for _, bin := range used {
		if _, was := m.gather.offers[bin.Offer.ID]; was {
			delete(m.gather.offers, bin.Offer.ID)
			m.flights.add(bin)
		}
	}
	delete(m.gather.rests, e.name)
	m.giveBack(m.gather.end(), pauseAfterGang)
}

// pauseAfterGang is for how long agents of which nothing was used are left to others.
const pauseAfterGang = refuseShort

func (m *Manager) giveBack(offers []api.Offer, refuse time.Duration) {
	for _, offer := range offers {
		if m.client == nil {
			return
		}
		if err := m.client.Answer(api.Decline(offer, refuse)); err != nil {
			m.config.Logger.Warn("an offer is not given back", "offer", offer.ID, "error", err)
		}
	}
}

// endGather gives back what was held for too long, or for a gang that does not want it any more.
func (m *Manager) endGather(now time.Time) {
	g := &m.gather
	maps.DeleteFunc(g.rests, func(name string, one rest) bool {
		e := m.jobs[name]
		return e == nil || e.master.Phase != jobs.Running
	})
	if g.name == "" {
		return
	}
	name, wants := g.name, m.wants.byJob[g.name]
	switch {
	case wants == nil:
		m.giveBack(g.end(), refuseShort)
	case !g.until.After(now):
		hold := time.Duration(wants.master.Job.Gang.Gather)
		times := g.rests[name].times + 1
		length := restLength(name+wants.master.Run, times, hold)
		g.rests[name] = rest{until: now.Add(length), times: times}
		m.giveBack(g.end(), length)
	}
}

// Rescinded implements [framework.Rescinder]: what was held may be taken back.
func (m *Manager) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	m.do(func(time.Time) {
		for _, id := range offers {
			delete(m.gather.offers, id)
		}
	})
}
