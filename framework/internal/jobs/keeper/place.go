package keeper

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/pack"
)

// flights holds the offers that are kept until the assignments of their tasks are in the store, by these tasks.
type flights map[api.TaskID]*flight

type flight struct {
	offer api.Offer
	tasks []api.Task
}

func (f flights) add(bin *pack.Bin) {
	kept := &flight{offer: bin.Offer, tasks: bin.Tasks}
	for _, task := range bin.Tasks {
		f[task.ID] = kept
	}
}

// remove removes and returns the flight that has the task; nil: there is none any more.
func (f flights) remove(task api.TaskID) *flight {
	kept := f[task]
	if kept != nil {
		for _, other := range kept.tasks {
			delete(f, other.ID)
		}
	}
	return kept
}

// leave removes a task that is not launched after all, and returns the offer if nothing else is to run in it.
func (f flights) leave(task api.TaskID) (unused []api.Offer) {
	kept := f[task]
	if kept == nil {
		return nil
	}
	delete(f, task)
	kept.tasks = slices.DeleteFunc(kept.tasks, func(other api.Task) bool { return other.ID == task })
	if len(kept.tasks) > 0 {
		return nil
	}
	return []api.Offer{kept.offer}
}

// The filters of declined offers: refuseShort for offers that were on their way when the demand changed, refuseLong for
// offers in which some task would fit but may not run.
const (
	refuseShort = 100 * time.Millisecond
	refuseLong  = api.DefaultRefuse
)

// Offers assigns the waiting tasks, and answers the offers. An offer is kept until the assignments of its tasks are in
// the store.
func (k *Keeper) Offers(offers []api.Offer, now time.Time) (answers []api.Answer) {
	bins, picky := pack.Bins(offers), false
	if k.settled {
		picky = k.placeTasks(now, bins)
	}
	for _, bin := range bins {
		switch {
		case k.gather.holds(bin):
			answers = append(answers, api.Keep(bin.Offer))
		case len(bin.Tasks) > 0:
			k.flights.add(bin)
			answers = append(answers, api.Keep(bin.Offer))
		case picky || k.gather.anyRests(now):
			answers = append(answers, api.Decline(bin.Offer, refuseLong))
		default:
			answers = append(answers, api.Decline(bin.Offer, refuseShort))
		}
	}
	return answers
}

// placeTasks gives each waiting job its turn. picky: some task would fit into a bin but may not run there.
func (k *Keeper) placeTasks(now time.Time, bins []*pack.Bin) (picky bool) {
	full := make(map[string]bool) // shapes for which there is no room
	for want := range k.wants.line.turns(full) {
		e := k.book.jobs[want.name]
		for i, ask := range want.asks {
			if ask.Gang {
				k.placeGang(e, ask, k.gather.free(bins), now)
				continue
			}
			key := want.keys[i]
			if plain(ask) && full[key] {
				continue
			}
			for range ask.Count {
				placed, refused := k.placeNext(e, ask, bins, now)
				picky = picky || refused
				if !placed {
					full[key] = full[key] || plain(ask)
					break
				}
			}
		}
		if isSpent(bins) {
			break
		}
	}
	return picky
}

// isSpent reports whether nothing is left in the bins.
func isSpent(bins []*pack.Bin) bool {
	return !slices.ContainsFunc(bins, func(bin *pack.Bin) bool { return !bin.Left.IsZero() })
}

// placeNext assigns the ask's next task. placed is false if there was no room. refused: the task would fit into some bin
// but may not run there.
func (k *Keeper) placeNext(e *entry, ask core.Ask, bins []*pack.Bin, now time.Time) (placed, refused bool) {
	task, is := e.master.Peek(ask, "")
	if !is {
		return false, false
	}
	room := func(bin *pack.Bin) bool {
		return !k.gather.holds(bin) && !bin.Left.IsZero() && bin.Fits(withVolumes(ask, task, bin.Left))
	}
	suits := func(agent api.AgentID) bool { return e.master.MayGoTo(ask, agent) }
	at, refused := k.judges.choose(ask, bins, room, suits, func(place string) int { return e.master.Place(ask.SubJob, place) })
	if at < 0 {
		return false, refused
	}
	best := bins[at]
	if task, is = e.master.Peek(ask, best.Offer.Agent); !is {
		return false, refused
	}
	best.Put(withVolumes(ask, task, best.Left))
	assigned := assign(ask, best.Offer, best.Tasks[len(best.Tasks)-1].Ports)
	assigned.SubJob, assigned.Version, assigned.Copy = ask.SubJob, ask.Version, ask.Copy
	k.stepJob(e, now, assigned)
	return true, refused
}

// assign says that a task of the ask has this room in an offer.
func assign(ask core.Ask, offer api.Offer, ports map[string]uint16) core.Assigned {
	return core.Assigned{Agent: offer.Agent, Hostname: offer.Hostname, Place: placeIn(ask, offer), Ports: maps.Clone(ports)}
}

// placeIn returns the place of the offer, as the task's Spread counts places; "": it is not spread.
func placeIn(ask core.Ask, offer api.Offer) string {
	if ask.Task.Spread == "" {
		return ""
	}
	return ask.Task.Spread.OfOffer(offer)
}

// withVolumes returns the task with the volumes that it asks for, each as it is in there. Of one that is not there it
// asks for a part, which in a demand means the whole.
func withVolumes(ask core.Ask, task api.Task, there api.Resources) api.Task {
	for _, id := range ask.Task.Volumes {
		volume := api.Label{Name: "disk", Reserved: ask.Role, Dynamic: true, Volume: id}
		task.Resources = task.Resources.Plus(api.NewResources(api.Resource{Label: volume, Scalar: 1}))
	}
	task.Resources = task.Resources.WholeVolumes(there)
	return task
}

// launchOffer launches all tasks of the offer to which this task belongs. The masters reduce the demand by them, so the demand
// has to be stated again.
func (k *Keeper) launchOffer(task api.TaskID) {
	if f := k.flights.remove(task); f != nil { // else it was launched together with another task of its offer
		k.wants.Restate(f.offer.Role)
		k.askMasters(func() error { return k.masters.Answer(api.Launch(f.offer, f.tasks...)) })
	}
}

// judges reads the constraints of tasks.
type judges struct {
	judge    jobs.Judge
	log      Log
	compiled map[string]func(api.Offer) bool
}

// compiledMax bounds the constraints that are kept compiled; beyond it all are forgotten and compiled anew.
const compiledMax = 1024

// mayRunOn reports whether the offer's agent is one that the task may run on.
func (j *judges) mayRunOn(task jobs.Task, offer api.Offer) bool {
	if !task.Fits(offer) || task.Constraint == "" {
		return task.Fits(offer)
	}
	meets := j.compiled[task.Constraint]
	if meets == nil {
		var err error
		if j.judge == nil {
			return false // another manager has taken the job
		}
		if meets, err = j.judge(task.Constraint); err != nil {
			j.log.Error("a constraint can't be read", "constraint", task.Constraint, "error", err)
			return false
		}
		if j.compiled == nil || len(j.compiled) >= compiledMax {
			j.compiled = make(map[string]func(api.Offer) bool)
		}
		j.compiled[task.Constraint] = meets
	}
	return meets(offer)
}

// choose returns which of the bins a task of the ask goes to: of those with room where it may run, the first in a place
// with the fewest tasks. -1: none. refused: one with room is left out because the task may not run there.
func (j *judges) choose(ask core.Ask, bins []*pack.Bin, room func(*pack.Bin) bool, suits func(api.AgentID) bool, countIn func(place string) int) (best int, refused bool) {
	best, least := -1, 0
	for i, bin := range bins {
		if bin.Offer.Role != ask.Role || !room(bin) {
			continue
		}
		there := 0
		if ask.Task.Spread != "" {
			there = countIn(placeIn(ask, bin.Offer))
		}
		switch {
		case !suits(bin.Offer.Agent) || !j.mayRunOn(ask.Task, bin.Offer) || ask.Task.Most > 0 && there >= ask.Task.Most:
			refused = true
		case best < 0 || there < least:
			best, least = i, there
		}
	}
	return best, refused
}
