package allocator_test

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// kind is a kind of framework of Mesos's MultiFrameworkAllocations.
type kind struct {
	name       string
	frameworks int
	tasks      int // the tasks that each of them wants
	atOnce     int // how many of these it takes from one offer at most
	task       string
	ownRole    bool // each framework has a role of its own
}

var kinds = []kind{
	{"marathon", 4, 4000, 100, "cpus:0.07;mem:400", true},
	{"jenkins", 500, 5, 1, "cpus:0.1;mem:4000", false},
	{"spark", 50, 20, 5, "cpus:1;mem:1000", true},
}

// Wanted is how many tasks all frameworks of MultiFramework want.
const Wanted = 4*4000 + 500*5 + 50*20

// Multi is the result of a run of MultiFramework.
type Multi struct {
	Launched int
	Rounds   int
	Took     time.Duration // processor time inside Allocate
}

type runner struct {
	kind kind
	role api.Role
	task api.Resources
	left int
}

// MultiFramework plays Mesos's benchmark of that name: 80 agents, and 554 frameworks of three kinds, which return
// leftovers without a filter. Mesos stalls, because frameworks that want nothing more go on holding what others wait
// for. stated says that the frameworks tell their demands.
func MultiFramework(policy allocator.Allocator, stated bool, roundsMax int) Multi {
	defer pinned()()
	runners := make(map[api.FrameworkID]*runner)
	for _, k := range kinds {
		for i := range k.frameworks {
			id := api.FrameworkID(fmt.Sprintf("%s-%d", k.name, i))
			r := &runner{kind: k, role: api.Role(k.name), task: must(k.task), left: k.tasks}
			if k.ownRole {
				r.role = api.Role(id)
			}
			runners[id] = r
			policy.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Roles: []api.Role{r.role}}, Active: true})
			if stated {
				r.state(policy, id)
			}
		}
	}
	for i := range 80 {
		policy.SetAgent(allocator.Agent{ID: api.AgentID(fmt.Sprintf("agent-%d", i)), Total: must("cpus:64;mem:488000"), Offerable: true})
	}
	var m Multi
	now := time.Unix(0, 0)
	for m.Rounds < roundsMax && m.Launched < Wanted {
		m.Rounds++
		now = now.Add(time.Second)
		start := CPU()
		made := policy.Allocate(now)
		m.Took += CPU() - start
		for _, offer := range made.Offers {
			r := runners[offer.Framework]
			launched := r.launch(policy, offer, m.Launched, now)
			m.Launched += launched
			if stated && launched > 0 {
				r.state(policy, offer.Framework)
			}
		}
	}
	return m
}

func (r *runner) state(policy allocator.Allocator, id api.FrameworkID) {
	shapes := []api.Shape{}
	if r.left > 0 {
		shapes = append(shapes, api.Shape{Resources: r.task, Count: int64(r.left)})
	}
	policy.SetDemand(id, r.role, shapes)
}

// launch takes what it wants from an offer and returns the rest without a filter.
func (r *runner) launch(policy allocator.Allocator, offer allocator.Claim, number int, now time.Time) int {
	launched := 0
	rest := offer.Resources
	for launched < r.kind.atOnce && r.left > 0 {
		taken, after, fits := rest.Carve(r.task)
		if !fits {
			break
		}
		claim := offer
		claim.Resources, claim.Task, claim.Since = taken, api.TaskID(fmt.Sprintf("task-%d", number+launched)), now
		policy.Launch(claim)
		rest = after
		launched++
		r.left--
	}
	if !rest.IsZero() {
		offer.Resources = rest
		policy.Return(offer)
	}
	return launched
}
