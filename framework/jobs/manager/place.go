package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/pack"
)

// flights holds the offers that are kept until the assignments of their tasks are in the store.
type flights struct {
	byOffer map[api.OfferID]*flight
	byTask  map[api.TaskID]*flight
}

type flight struct {
	offer api.Offer
	tasks []api.Task
}

func newFlights() flights {
	return flights{byOffer: make(map[api.OfferID]*flight), byTask: make(map[api.TaskID]*flight)}
}

func (f *flights) add(bin *pack.Bin) {
	one := &flight{offer: bin.Offer, tasks: bin.Tasks}
	f.byOffer[bin.Offer.ID] = one
	for _, task := range bin.Tasks {
		f.byTask[task.ID] = one
	}
}

// take removes and returns the flight that has the task; nil: it was taken already.
func (f *flights) take(task api.TaskID) *flight {
	one := f.byTask[task]
	if one == nil {
		return nil
	}
	delete(f.byOffer, one.offer.ID)
	for _, other := range one.tasks {
		delete(f.byTask, other.ID)
	}
	return one
}

// leave removes a task that is not launched after all, and returns the offer in which nothing else is to run.
func (f *flights) leave(task api.TaskID) (unused []api.Offer) {
	one := f.byTask[task]
	if one == nil {
		return nil
	}
	delete(f.byTask, task)
	one.tasks = slices.DeleteFunc(one.tasks, func(other api.Task) bool { return other.ID == task })
	if len(one.tasks) > 0 {
		return nil
	}
	delete(f.byOffer, one.offer.ID)
	return []api.Offer{one.offer}
}

// The filters of declined offers: refuseShort for offers that were on their way when the demand changed, refuseLong for
// offers in which some task would fit but may not run.
const (
	refuseShort = 100 * time.Millisecond
	refuseLong  = api.DefaultRefuse
)

// Offers implements [framework.Scheduler]: it assigns the waiting tasks. An offer is kept until the assignments of its
// tasks are in the store.
func (m *Manager) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	m.do(func(now time.Time) {
		bins, picky := pack.Bins(offers), false
		if m.turn.known {
			picky = m.placeTasks(now, bins)
		}
		for _, bin := range bins {
			switch {
			case m.gather.holds(bin):
				answers = append(answers, api.Keep(bin.Offer))
			case len(bin.Tasks) > 0:
				m.flights.add(bin)
				answers = append(answers, api.Keep(bin.Offer))
			case picky || m.gather.anyRests(now):
				answers = append(answers, api.Decline(bin.Offer, refuseLong))
			default:
				answers = append(answers, api.Decline(bin.Offer, refuseShort))
			}
		}
	})
	return answers
}

// placeTasks gives each waiting job its turn. picky: some task would fit into a bin but may not run there.
func (m *Manager) placeTasks(now time.Time, bins []*pack.Bin) (picky bool) {
	full := make(map[string]bool) // shapes for which there is no room
	for want := range m.wants.turns(full) {
		e := m.jobs[want.name]
		for i, ask := range want.asks {
			if ask.Gang {
				m.placeGang(e, ask, m.gather.free(bins), now)
				continue
			}
			key := want.keys[i]
			if plain(ask) && full[key] {
				continue
			}
			for range ask.Count {
				placed, refused := m.placeOne(e, ask, bins, now)
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

// placeOne assigns the ask's next task. placed is false if there was no room. refused: the task would fit into some bin
// but may not run there.
func (m *Manager) placeOne(e *entry, ask core.Ask, bins []*pack.Bin, now time.Time) (placed, refused bool) {
	task, is := e.master.Peek(ask, "")
	if !is {
		return false, false
	}
	var best *pack.Bin
	least := 0
	for _, bin := range bins {
		if m.gather.holds(bin) || bin.Offer.Role != ask.Role || bin.Left.IsZero() || !bin.Fits(withVolumes(ask, task, bin.Left)) {
			continue
		}
		there := 0
		if ask.Task.Spread != "" {
			there = e.master.Place(ask.SubJob, ask.Task.Spread.OfOffer(bin.Offer))
		}
		switch {
		case !e.master.Takes(ask, bin.Offer.Agent) || !m.mayRunOn(ask.Task, bin.Offer) || ask.Task.Most > 0 && there >= ask.Task.Most:
			refused = true
		case best == nil || there < least:
			best, least = bin, there
		}
	}
	if best == nil {
		return false, refused
	}
	if task, is = e.master.Peek(ask, best.Offer.Agent); !is {
		return false, refused
	}
	best.Put(withVolumes(ask, task, best.Left))
	assigned := core.Assigned{SubJob: ask.SubJob, Version: ask.Version, Copy: ask.Copy, Agent: best.Offer.Agent, Hostname: best.Offer.Hostname,
		Ports: maps.Clone(best.Tasks[len(best.Tasks)-1].Ports)}
	if ask.Task.Spread != "" {
		assigned.Place = ask.Task.Spread.OfOffer(best.Offer)
	}
	m.stepJob(e, now, assigned)
	return true, refused
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

// judgedMax bounds the constraints that are kept compiled; beyond it all are forgotten and compiled anew.
const judgedMax = 1024

// mayRunOn reports whether the offer's agent is one that the task may run on.
func (m *Manager) mayRunOn(task jobs.Task, offer api.Offer) bool {
	if !task.Fits(offer) || task.Constraint == "" {
		return task.Fits(offer)
	}
	meets := m.judged[task.Constraint]
	if meets == nil {
		var err error
		if m.config.Judge == nil {
			return false // another manager has taken the job
		}
		if meets, err = m.config.Judge(task.Constraint); err != nil {
			m.config.Logger.Error("a constraint can't be read", "constraint", task.Constraint, "error", err)
			return false
		}
		if m.judged == nil || len(m.judged) >= judgedMax {
			m.judged = make(map[string]func(api.Offer) bool)
		}
		m.judged[task.Constraint] = meets
	}
	return meets(offer)
}

// launchOffer launches all tasks of the offer to which this task belongs. The masters reduce the demand by them, so the
// demand has to be stated again.
func (m *Manager) launchOffer(task api.TaskID) error {
	one := m.flights.take(task)
	if one == nil {
		return nil // it was launched together with another task of its offer
	}
	m.wants.Restate(one.offer.Role)
	return m.client.Answer(api.Launch(one.offer, one.tasks...))
}
