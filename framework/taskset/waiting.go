package taskset

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/pack"
)

// waiting is what waits for offers: wishes by group, in piles of those that fit alike or queued for locality; the demand that says so to the
// masters; and where what runs counts for the next one's place. Of attempts it knows where they are, and not how they fare.
type waiting struct {
	config Config
	alarms *alarmClock
	launch func(w *wish, bin *pack.Bin, task api.Task) // has placed a wish

	wishes   map[api.TaskID]*wish
	groups   map[string]*group
	roles    map[api.Role]*role
	own      api.Role                               // that of the role "", as the masters call it
	named    bool                                   // own is known, or known to be none
	hosts    map[api.ExecutorID]map[api.AgentID]int // running attempts of those that take resources for themselves
	homeless []*attempt                             // of whose agent no offer was seen
	past     locality.Numbers                       // of groups that are forgotten
	added    int                                    // wishes so far
	picky    int                                    // wishes that refuse offers in which they have room

	told   map[api.Role][]api.Shape // the demand as it was stated
	unsaid bool                     // it may have changed since
	moved  map[api.Role]bool        // the masters may have changed it: they count launches off
	change *alarm                   // it changes by time alone
}

func newWaiting(config Config, alarms *alarmClock, launch func(*wish, *pack.Bin, api.Task)) *waiting {
	q := &waiting{
		config: config, alarms: alarms, launch: launch,
		wishes: make(map[api.TaskID]*wish),
		groups: make(map[string]*group),
		roles:  make(map[api.Role]*role),
		hosts:  make(map[api.ExecutorID]map[api.AgentID]int),
		told:   make(map[api.Role][]api.Shape),
		moved:  make(map[api.Role]bool),
	}
	q.roleOf("")
	return q
}

// wish is an attempt that is not launched yet.
type wish struct {
	task  api.Task
	ask   api.Resources
	item  *item
	copy  bool
	avoid api.AgentID // not there
	near  bool        // it queues for locality
	gone  bool        // launched, or not wanted any more
	age   int
}

func (it *item) prefers() bool {
	return len(it.Prefer.Agents)+len(it.Prefer.Hostnames)+len(it.Prefer.Places) > 0
}

// add queues a wish.
func (q *waiting) add(w *wish) {
	it := w.item
	q.added++
	w.age = q.added
	if q.config.Spread != "" || q.config.Apart != "" {
		w.task.Group = it.Group
	}
	w.ask = pack.Ask(w.task)
	q.wishes[w.task.ID] = w
	it.wishes = append(it.wishes, w)
	if q.refuses(w) {
		q.picky++
	}
	q.unsaid = true
	if w.near = !w.copy && it.prefers(); w.near {
		it.group.near++
		it.group.role.delay.Add(jobOf(it.Group), w.task, it.Prefer)
	} else {
		q.queue(w)
	}
}

// unwish forgets what is not wanted any more.
func (q *waiting) unwish(w *wish) {
	if w.near {
		w.item.group.role.delay.Remove(w.task.ID)
	}
	q.unsaid = true
	q.taken(w)
}

// taken takes a wish out of the books: it is launched, or not wanted any more.
func (q *waiting) taken(w *wish) {
	delete(q.wishes, w.task.ID)
	w.item.wishes = slices.DeleteFunc(w.item.wishes, func(other *wish) bool { return other == w })
	w.gone = true
	if q.refuses(w) {
		q.picky--
	}
	if w.near {
		w.item.group.near--
	} else {
		q.unqueue(w)
	}
}
