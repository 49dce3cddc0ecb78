package manager

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/pack"
)

// gather holds offers for one gang until there is room for all its members. Only one gang holds offers at a time, and
// for no longer than its job allows. Then it gives all of them back and rests, while others have their turn. So two
// gangs that would each fit alone never block each other, whether they belong to one manager or to two.
type gather struct {
	name   string // of the gang's job; "": no gang holds offers
	offers map[api.OfferID]api.Offer
	until  time.Time
	rests  map[string]rest // by job
}

// rest says for how long a gang that has given its offers back holds none.
type rest struct {
	until time.Time
	times int // how often it has given offers back
}

func newGather() gather {
	return gather{offers: make(map[api.OfferID]api.Offer), rests: make(map[string]rest)}
}

// resting reports whether the gang rests now.
func (g *gather) resting(name string, now time.Time) bool { return g.rests[name].until.After(now) }

// anyRests reports whether some gang rests and leaves its offers to others.
func (g *gather) anyRests(now time.Time) bool {
	for _, one := range g.rests { // order: irrelevant because one is enough
		if one.until.After(now) {
			return true
		}
	}
	return false
}

// holds reports whether the bin's offer is held for the gang.
func (g *gather) holds(bin *pack.Bin) bool { return g.offers[bin.Offer.ID].ID != "" }

// free returns the bins whose offers are not held.
func (g *gather) free(bins []*pack.Bin) []*pack.Bin {
	return slices.DeleteFunc(slices.Clone(bins), g.holds)
}

// end ends the holding and returns the offers that were held, to be given back.
func (g *gather) end() (held []api.Offer) {
	for _, id := range slices.Sorted(maps.Keys(g.offers)) {
		held = append(held, g.offers[id])
	}
	clear(g.offers)
	g.name, g.until = "", time.Time{}
	return held
}

// restLength returns how long a gang rests. It differs from gang to gang and from time to time, so that two gangs do
// not stay in step.
func restLength(name string, times int, hold time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash takes what it is given
	_, _ = sum.Write([]byte{byte(times)})
	return hold + time.Duration(float64(hold)*2*float64(sum.Sum32()%1000)/1000)
}

// placeGang assigns all members of a gang, or holds the offers that there are for them.
func (m *Manager) placeGang(e *entry, ask core.Ask, bins []*pack.Bin, now time.Time) {
	g := &m.gather
	if g.name != "" && g.name != e.name {
		return // one gang after the other
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
	members, used := m.fitGang(ask, task, all)
	switch {
	case len(members) == ask.Count:
		m.assignGang(e, ask, members, used, now)
	case g.resting(e.name, now) || len(members) == 0:
	default:
		for _, bin := range used {
			if len(bin.Tasks) == 0 { // no other job uses a part of it
				g.offers[bin.Offer.ID] = bin.Offer
			}
		}
		if g.name == "" && len(g.offers) > 0 {
			g.name, g.until = e.name, now.Add(time.Duration(e.master.Job.Gang.Gather))
		}
	}
}

// member is a place for one member of a gang.
type member struct {
	bin  *pack.Bin
	task api.Task // the task as the bin would take it
}

// fitGang looks for room for as many members as possible, and returns the bins that would be used. It changes none of
// them.
func (m *Manager) fitGang(ask core.Ask, task api.Task, bins []*pack.Bin) (members []member, used []*pack.Bin) {
	trial := make([]*pack.Bin, len(bins))
	for i, bin := range bins {
		trial[i] = &pack.Bin{Offer: bin.Offer, Left: bin.Left, Tasks: slices.Clone(bin.Tasks)}
	}
	places := make(map[string]int)
	for range ask.Count {
		best, least := -1, 0
		for i, bin := range trial {
			if bin.Offer.Role != ask.Role || !m.mayRunOn(ask.Task, bin.Offer) || !bin.Fits(task) {
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

// assignGang assigns all members. Held offers that are not used are given back.
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
	m.stepJob(e, now, assigned)
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

// pauseAfterGang is the filter for offers that were held and not used, so that others get them.
const pauseAfterGang = refuseShort

// giveBackUnused gives back offers in which nothing is to run any more.
func (m *Manager) giveBackUnused(offers []api.Offer) { m.giveBack(offers, refuseShort) }

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

// endGather gives back offers that were held for too long, or for a gang that no longer wants them.
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

// Rescinded implements [framework.Rescinder]: held offers may be rescinded.
func (m *Manager) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	m.do(func(time.Time) {
		for _, id := range offers {
			delete(m.gather.offers, id)
		}
	})
}
