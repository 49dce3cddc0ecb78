package keeper

import (
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
	for _, r := range g.rests { // order: irrelevant because one is enough
		if r.until.After(now) {
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
func (k *Keeper) placeGang(e *entry, ask core.Ask, bins []*pack.Bin, now time.Time) {
	g := &k.gather
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
	members, used := k.fitGang(ask, task, all)
	switch {
	case len(members) == ask.Count:
		k.assignGang(e, ask, members, used, now)
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
func (k *Keeper) fitGang(ask core.Ask, task api.Task, bins []*pack.Bin) (members []member, used []*pack.Bin) {
	trial := make([]*pack.Bin, len(bins))
	for i, bin := range bins {
		trial[i] = &pack.Bin{Offer: bin.Offer, Left: bin.Left, Tasks: slices.Clone(bin.Tasks)}
	}
	places := make(map[string]int)
	room := func(bin *pack.Bin) bool { return bin.Fits(task) }
	anywhere := func(api.AgentID) bool { return true }
	for range ask.Count {
		best, _ := k.judges.choose(ask, trial, room, anywhere, func(place string) int { return places[place] })
		if best < 0 {
			break
		}
		bin := trial[best]
		bin.Put(task)
		places[placeIn(ask, bin.Offer)]++
		members = append(members, member{bins[best], bin.Tasks[len(bin.Tasks)-1]})
		if !slices.Contains(used, bins[best]) {
			used = append(used, bins[best])
		}
	}
	return members, used
}

// assignGang assigns all members. Held offers that are not used are given back.
func (k *Keeper) assignGang(e *entry, ask core.Ask, members []member, used []*pack.Bin, now time.Time) {
	assigned := core.AssignedGang{SubJob: ask.SubJob, Version: ask.Version}
	for _, place := range members {
		assigned.Members = append(assigned.Members, assign(ask, place.bin.Offer, place.task.Ports))
	}
	k.stepJob(e, now, assigned)
	for i, task := range e.master.GangTasks(ask.SubJob) {
		task.Ports, task.Resources = members[i].task.Ports, members[i].task.Resources
		members[i].bin.Put(task)
	}
	for _, bin := range used {
		if _, was := k.gather.offers[bin.Offer.ID]; was {
			delete(k.gather.offers, bin.Offer.ID)
			k.flights.add(bin)
		}
	}
	delete(k.gather.rests, e.name)
	k.giveBack(k.gather.end(), refuseShort) // so that others get them
}

// giveBack gives back offers in which nothing is to run.
func (k *Keeper) giveBack(offers []api.Offer, refuse time.Duration) {
	for _, offer := range offers {
		if k.masters == nil {
			return
		}
		if err := k.masters.Answer(api.Decline(offer, refuse)); err != nil {
			k.config.Log.Warn("an offer is not given back", "offer", offer.ID, "error", err)
		}
	}
}

// endGather gives back offers that were held for too long, or for a gang that no longer wants them.
func (k *Keeper) endGather(now time.Time) {
	g := &k.gather
	maps.DeleteFunc(g.rests, func(name string, r rest) bool {
		e := k.book.jobs[name]
		return e == nil || e.master.Phase != jobs.Running
	})
	if g.name == "" {
		return
	}
	name, wants := g.name, k.wants.byJob[g.name]
	switch {
	case wants == nil:
		k.giveBack(g.end(), refuseShort)
	case !g.until.After(now):
		hold := time.Duration(wants.master.Job.Gang.Gather)
		times := g.rests[name].times + 1
		length := restLength(name+wants.master.Run, times, hold)
		g.rests[name] = rest{until: now.Add(length), times: times}
		k.giveBack(g.end(), length)
	}
}

// Rescind says that these offers are gone, which may be held.
func (k *Keeper) Rescind(offers []api.OfferID) {
	for _, id := range offers {
		delete(k.gather.offers, id)
	}
}
