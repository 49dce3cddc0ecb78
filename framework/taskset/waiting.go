package taskset

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/work"
)

// waiting is everything that waits for offers. It holds the wishes by group, in piles of those that ask for the same,
// or queued for locality. It makes the demand that tells the masters of them. It also counts where tasks run, because
// that decides where the next one goes; it does not know how they fare.
type waiting struct {
	config Config
	alarms *alarmClock
	launch func(w *wish, bin *pack.Bin, task api.Task) // is called for a wish that was placed

	wishes   map[api.TaskID]*wish
	groups   map[string]*group
	roles    map[api.Role]*role
	own      api.Role                               // the role that items mean that name none, as the masters call it
	named    bool                                   // own is known, or it is known that there is none
	hosts    map[api.ExecutorID]map[api.AgentID]int // running attempts of executors with resources of their own
	homeless []*attempt                             // attempts whose place is unknown until their agent is offered
	past     locality.Numbers                       // numbers of groups that are forgotten
	added    int                                    // number of wishes so far
	// picky is how many wishes may refuse offers with room for them, because they avoid an agent. Offers that only Apart
	// forbids are not meant: the masters do not make them, because the demand states Apart as well.
	picky int

	wants  work.Wants // what waits in piles
	change *alarm     // when the demand changes by time alone
}

func newWaiting(config Config, alarms *alarmClock, launch func(*wish, *pack.Bin, api.Task)) *waiting {
	q := &waiting{
		config: config, alarms: alarms, launch: launch,
		wishes: make(map[api.TaskID]*wish),
		groups: make(map[string]*group),
		roles:  make(map[api.Role]*role),
		hosts:  make(map[api.ExecutorID]map[api.AgentID]int),
		wants:  work.NewWants(),
	}
	q.roleOf("")
	return q
}

// wish is an attempt that is not launched yet.
type wish struct {
	task  api.Task
	item  *item
	copy  bool
	avoid api.AgentID // not on this agent
	pile  *pile       // in which it waits; nil: it queues for locality
	gone  bool        // it was launched, or is not wanted any more
	age   int
}

func (it *item) hasPreference() bool {
	return len(it.Prefer.Agents)+len(it.Prefer.Hostnames)+len(it.Prefer.Places) > 0
}

// addWish queues a wish.
func (q *waiting) addWish(w *wish) {
	it := w.item
	q.added++
	w.age = q.added
	if q.config.Spread != "" || q.config.Apart != "" {
		w.task.Group = it.Group
	}
	q.wishes[w.task.ID] = w
	it.wishes = append(it.wishes, w)
	if w.avoid != "" {
		q.picky++
	}
	q.wants.Restate(q.nameOf(it.group.role))
	if !w.copy && it.hasPreference() {
		it.group.near++
		it.group.role.delay.Add(jobOf(it.Group), w.task, it.Prefer)
	} else {
		q.queueWish(w)
	}
}

// dropWish drops a wish that is not wanted any more.
func (q *waiting) dropWish(w *wish) {
	if w.pile == nil {
		w.item.group.role.delay.Remove(w.task.ID)
	}
	q.removeWish(w)
}

// dropWishes drops those of the item's wishes that the function chooses.
func (q *waiting) dropWishes(it *item, choose func(*wish) bool) {
	for _, w := range slices.Clone(it.wishes) {
		if choose(w) {
			q.dropWish(w)
		}
	}
}

func anyWish(*wish) bool { return true }

// relaxWish lets a wish go to the agent that it avoids, because no other has had room.
func (q *waiting) relaxWish(w *wish) {
	if w.gone {
		return
	}
	again := *w
	q.dropWish(w)
	again.avoid = ""
	q.addWish(&again)
}

// removeWish removes a wish that was launched or is not wanted any more.
func (q *waiting) removeWish(w *wish) {
	delete(q.wishes, w.task.ID)
	w.item.wishes = slices.DeleteFunc(w.item.wishes, func(other *wish) bool { return other == w })
	w.gone = true
	q.wants.Restate(q.nameOf(w.item.group.role))
	if w.avoid != "" {
		q.picky--
	}
	if w.pile == nil {
		w.item.group.near--
	} else {
		q.unqueueWish(w)
	}
}
