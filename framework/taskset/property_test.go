package taskset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/internal/work"
)

// world is a cluster without a clock of its own, in which chance decides how tasks end.
type world struct {
	t       *rapid.T
	set     *Set
	config  Config
	agents  int
	tasks   map[api.TaskID]*played
	used    map[api.TaskID]bool
	kills   map[api.TaskID]bool
	demand  api.Demand
	offers  int
	added   map[string]bool // the items that must end
	ended   map[string]int
	torn    bool
	leaving []api.OfferID // inverse offers so far
	rolled  bool          // a change of the service has begun, so new tasks may run beside old ones
	clock   sync.Mutex    // taken by everybody who acts on the world, because the set's timer does too
}

// pass lets time pass, so that timers that are due run. It waits for those that run already before and after.
func (w *world) pass(d time.Duration) {
	w.act(func() {})
	<-time.After(d)
	synctest.Wait()
	w.act(func() {})
}

func (w *world) act(do func()) {
	w.clock.Lock()
	defer w.clock.Unlock()
	do()
}

type played struct {
	agent  int
	task   api.Task
	silent bool
	state  api.TaskState
}

func (w *world) Roles() []api.Role                        { return []api.Role{""} }
func (w *world) Demand(d api.Demand) error                { w.act(func() { w.demand = d }); return nil }
func (w *world) Teardown() error                          { w.act(func() { w.torn = true }); return nil }
func (w *world) AnswerInverse(bool, ...api.OfferID) error { return nil }
func (w *world) Kill(id api.TaskID, _ ...framework.KillOption) error {
	w.act(func() { w.kills[id] = true })
	return nil
}

const roomPerAgent = 3

func (w *world) offer(agent int) {
	room := roomPerAgent
	for _, p := range w.tasks { // order: irrelevant because it counts
		if p.agent == agent {
			room--
		}
	}
	if room == 0 || len(w.demand.Shapes) == 0 {
		return
	}
	w.offers++
	offer := api.Offer{ID: api.OfferID(fmt.Sprint("offer-", w.offers)), Agent: api.AgentID(fmt.Sprint("agent-", agent)), Resources: api.Scalars(float64(room), 100)}
	for _, answer := range w.set.Offers(w.t.Context(), []api.Offer{offer}) {
		for _, operation := range answer.Operations {
			for _, task := range operation.Tasks {
				if room--; room < 0 || w.used[task.ID] {
					w.t.Fatalf("%s is launched with %d places left, used before: %v", task.ID, room, w.used[task.ID])
				}
				w.used[task.ID] = true
				w.tasks[task.ID] = &played{agent: agent, task: task, state: api.TaskStaging}
				if rapid.Bool().Draw(w.t, "runs") {
					w.tell(task.ID, api.TaskRunning, 0)
				}
			}
		}
	}
}

func (w *world) pick() api.TaskID {
	ids := slices.Sorted(maps.Keys(w.tasks))
	if len(ids) == 0 {
		return ""
	}
	return rapid.SampledFrom(ids).Draw(w.t, "task")
}

func (w *world) tell(id api.TaskID, state api.TaskState, reason api.Reason) {
	p := w.tasks[id]
	p.state, p.silent = state, state == api.TaskUnreachable
	if state.Terminal() {
		delete(w.tasks, id)
	}
	status := api.Status{Task: id, Agent: api.AgentID(fmt.Sprint("agent-", p.agent)), State: state, Reason: reason}
	if !state.Terminal() {
		status.Labels = p.task.Labels
	}
	for range rapid.IntRange(1, 2).Draw(w.t, "copies") {
		if err := w.set.Update(w.t.Context(), status); err != nil {
			w.t.Fatal(err)
		}
	}
}

// checkSurvey fails unless what a rolling change remembers of its items is what a look at all of them finds.
func (w *world) checkSurvey() {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	for _, v := range w.set.state.rollouts.rolling { // order: irrelevant because each must hold
		w.set.state.rollouts.lookAtItems(v, time.Now())
		said, fresh := v.survey, v.survey
		fresh.Begin(v.n)
		v.survey = fresh
		w.set.state.rollouts.lookAtItems(v, time.Now())
		for _, stand := range []work.Stand{work.Old, work.Tried, work.Changed} {
			if said.Count(stand) != fresh.Count(stand) {
				w.t.Fatalf("%d items of %s are remembered as %d, %d are", said.Count(stand), v.name, stand, fresh.Count(stand))
			}
		}
		for atOnce := range v.n {
			next, is := said.Next(atOnce, false)
			if again, is2 := fresh.Next(atOnce, false); again != next || is != is2 {
				w.t.Fatalf("of %s, %d at once, %d is next (%t), but by a new look %d (%t)", v.name, atOnce, next, is, again, is2)
			}
		}
		v.survey = said
	}
}

// check fails if an item has two tasks that run. Copies, moves, changes beside, killed tasks and silent ones are
// exceptions.
func (w *world) check(*rapid.T) {
	w.checkSurvey()
	n := map[string]int{}
	for id, p := range w.tasks { // order: irrelevant because it counts
		if item, _, _ := parseTaskID(id); !p.silent && !w.kills[id] {
			n[item]++
		}
	}
	for item, running := range n { // order: irrelevant because each must hold
		most := 1
		if w.config.Speculate > 0 || strings.HasPrefix(item, "web-") && (len(w.leaving) > 0 || w.rolled) {
			most = 2
		}
		if running > most || w.ended[item] > 0 {
			w.t.Fatalf("%d tasks of %s run, which has ended %d times", running, item, w.ended[item])
		}
	}
	if numbers := w.set.Numbers(); w.config.Speculate == 0 && numbers.Copies > 0 || len(w.leaving) == 0 && numbers.Moves > 0 {
		w.t.Fatalf("nobody has asked for copies: %+v", numbers)
	}
	for item, times := range w.ended { // order: irrelevant because each must hold
		if times != 1 || !w.added[item] {
			w.t.Fatalf("%s has ended %d times", item, times)
		}
	}
}

func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":      w.check,
		"offer": func(t *rapid.T) { w.offer(rapid.IntRange(1, w.agents).Draw(t, "agent")) },
		"time": func(t *rapid.T) {
			w.pass(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
		},
		"leave": func(t *rapid.T) {
			if id := w.pick(); id != "" {
				w.leaving = append(w.leaving, api.OfferID(fmt.Sprint("inverse-", len(w.leaving))))
				deadline := time.Now().Add(time.Duration(rapid.IntRange(-1, 60).Draw(t, "s")) * time.Second)
				w.set.InverseOffers(t.Context(), []api.InverseOffer{{ID: w.leaving[len(w.leaving)-1],
					Agent: api.AgentID(fmt.Sprint("agent-", w.tasks[id].agent)), Tasks: []api.TaskID{id}, Deadline: deadline,
					Reason: rapid.SampledFrom([]api.Reason{api.ReasonPreempted, api.ReasonAgentDraining}).Draw(t, "why")}})
			}
		},
		"stay": func(t *rapid.T) {
			if len(w.leaving) > 0 {
				w.set.Rescinded(t.Context(), []api.OfferID{rapid.SampledFrom(w.leaving).Draw(t, "which")}, "it is needed no more")
			}
		},
		"run": func(t *rapid.T) {
			if id := w.pick(); id != "" {
				w.tell(id, api.TaskRunning, 0)
			}
		},
		"silent": func(t *rapid.T) {
			if id := w.pick(); id != "" && w.tasks[id].state == api.TaskRunning {
				w.tell(id, api.TaskUnreachable, api.ReasonAgentDisconnected)
			}
		},
		"back": func(t *rapid.T) {
			for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
				if w.tasks[id].silent {
					w.tell(id, api.TaskRunning, 0)
				}
			}
		},
		"end": func(t *rapid.T) {
			if id := w.pick(); id != "" {
				state := rapid.SampledFrom([]api.TaskState{
					api.TaskFinished, api.TaskFailed, api.TaskFailed, api.TaskKilled, api.TaskDropped, api.TaskGone, api.TaskError,
				}).Draw(t, "state")
				w.tell(id, state, rapid.SampledFrom([]api.Reason{0, api.ReasonPreempted, api.ReasonAgentRebooted, api.ReasonMemoryLimit}).Draw(t, "reason"))
			}
		},
		"kill": func(t *rapid.T) {
			for _, id := range slices.Sorted(maps.Keys(w.kills)) {
				if p := w.tasks[id]; p != nil && !p.silent {
					w.tell(id, api.TaskKilled, api.ReasonKilledByFramework)
				}
			}
		},
		"add": func(t *rapid.T) {
			id := fmt.Sprint("item-", len(w.added))
			one := Item{ID: id, Group: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"), Task: api.Task{Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "true"}}}
			if rapid.Bool().Draw(t, "executor") {
				one.Task.Executor = &api.Executor{ID: "own", Resources: api.Scalars(0, 1)}
			}
			if rapid.Bool().Draw(t, "prefers") {
				one.Prefer = locality.Prefer{Agents: []api.AgentID{"agent-1"}}
			}
			if w.set.Add(context.Background(), one) == nil {
				w.added[id] = true
			}
		},
		"remove": func(t *rapid.T) {
			id := fmt.Sprint("item-", rapid.IntRange(0, max(0, len(w.added)-1)).Draw(t, "which"))
			if w.ended[id] == 0 {
				if err := w.set.Remove(context.Background(), id); err != nil {
					t.Fatal(err)
				}
				w.ended[id], w.added[id] = 1, true
			}
		},
		"scale": func(t *rapid.T) {
			like := web("v1")
			for _, service := range w.set.Services() {
				like = service.Like // else it would be scaled to another version than that of its change
			}
			if err := w.set.Scale(context.Background(), "web", like, rapid.IntRange(0, 3).Draw(t, "n")); err != nil {
				t.Fatal(err)
			}
		},
		"roll": func(t *rapid.T) {
			how := Rolling{AtOnce: rapid.IntRange(0, 2).Draw(t, "at once"), Beside: rapid.Bool().Draw(t, "beside") && w.config.Apart == "", // there are no more agents than items
				Proof:    rapid.SampledFrom([]time.Duration{-1, 0, time.Minute}).Draw(t, "proof"),
				Patience: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "patience for the proof"),
				Failures: rapid.IntRange(0, 2).Draw(t, "failures"), Back: rapid.Bool().Draw(t, "back")}
			err := w.set.Roll(context.Background(), "web", web(rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "version")), how)
			if err != nil && !api.Is(err, api.NotFound) {
				t.Fatal(err)
			}
			w.rolled = w.rolled || err == nil
		},
	}
}

// web is an item of the service that the test scales and changes.
func web(version string) Item {
	return Item{Task: api.Task{
		Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "true"}, Labels: map[string]string{VersionLabel: version},
	}}
}

// settle lets the services' tasks run well until each change has ended: it is done, or it has stopped.
func (w *world) settle() {
	for range 100 {
		for agent := range w.agents {
			w.offer(agent + 1)
		}
		for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
			switch item, _, _ := parseTaskID(id); {
			case w.kills[id]:
				w.tell(id, api.TaskKilled, api.ReasonKilledByFramework)
			case strings.HasPrefix(item, "web-"):
				w.tell(id, api.TaskRunning, 0)
			default:
				w.tell(id, api.TaskFinished, 0)
			}
		}
		w.check(w.t)
		w.pass(10 * time.Second)
	}
	for _, service := range w.set.Services() {
		p := service.Rolling
		if p == nil {
			continue
		}
		if !p.Done && !p.Stopped || p.Trying != 0 || p.Done && p.New != p.Items {
			w.t.Fatalf("the change does not end: %+v", *p)
		}
		for id, task := range w.tasks { // order: irrelevant because each must hold
			if version := task.task.Labels[VersionLabel]; p.Done && version != "" && version != p.Version {
				w.t.Fatalf("the change is done and %s runs %s: %+v", id, version, *p)
			}
		}
	}
}

// calm lets all tasks do well until nothing is left.
func (w *world) calm() {
	w.settle()
	if err := w.set.Scale(context.Background(), "web", Item{}, 0); err != nil {
		w.t.Fatal(err)
	}
	w.set.Close()
	for turn := 0; turn < 200 && !(w.torn && len(w.tasks) == 0); turn++ {
		for agent := range w.agents {
			w.offer(agent + 1)
		}
		for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
			if w.kills[id] {
				w.tell(id, api.TaskKilled, api.ReasonKilledByFramework)
			} else {
				w.tell(id, api.TaskFinished, 0)
			}
		}
		w.check(w.t)
		w.pass(10 * time.Second)
	}
	if len(w.ended) != len(w.added) || !w.torn || len(w.tasks) > 0 || len(w.demand.Shapes) > 0 {
		w.t.Fatalf("%d of %d items have ended, the framework is removed: %v, %d tasks are left, %v is wanted",
			len(w.ended), len(w.added), w.torn, len(w.tasks), w.demand)
	}
	if n := w.set.Numbers(); n.Items+n.Waiting+n.Pausing+n.Running > 0 || len(w.set.state.waiting.groups) > 0 || len(w.set.state.waiting.wants.In("")) > 0 || w.set.state.waiting.picky != 0 || len(w.set.state.waiting.hosts) > 0 {
		w.t.Fatalf("something is left: %+v, %d groups", n, len(w.set.state.waiting.groups))
	}
}

// bubbled hides Deadline, which can't be asked for in a bubble.
type bubbled struct{ rapid.TB }

// TestEveryItemEndsOnce: whatever happens to tasks, each item ends exactly once, and never do more tasks run than are
// wanted.
func TestEveryItemEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			w := &world{t: t, agents: 3, tasks: map[api.TaskID]*played{}, used: map[api.TaskID]bool{}, kills: map[api.TaskID]bool{},
				added: map[string]bool{}, ended: map[string]int{}}
			w.config = Config{
				Attempts:       rapid.SampledFrom([]int{0, 1, -1}).Draw(t, "attempts"),
				Pause:          time.Duration(rapid.IntRange(-1, 2).Draw(t, "pause")) * time.Second,
				AttemptTimeout: rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "limit"),
				Timeout:        rapid.SampledFrom([]time.Duration{0, 5 * time.Minute}).Draw(t, "whole"),
				Unreachable:    time.Duration(rapid.IntRange(-1, 1).Draw(t, "patience")) * 10 * time.Second,
				Speculate:      rapid.SampledFrom([]float64{0, 1.5}).Draw(t, "speculate"),
				Locality:       locality.Config{Node: locality.Wait{Time: 5 * time.Second}, Withhold: rapid.Bool().Draw(t, "withhold")},
				Ended:          func(o Outcome) { w.act(func() { w.ended[o.Item]++ }) },
			}
			if rapid.Bool().Draw(t, "apart") {
				w.config.Apart = api.ByAgent
			}
			w.set = New(w.config)
			w.set.client = w
			w.set.Settled(t.Context())
			t.Repeat(w.actions())
			w.calm()
		})
	})
}

// TestAfterRun: when a client's Run has ended, the set stops its timers.
func TestAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Timeout: time.Hour})
		if err := s.Add(context.Background(), Item{ID: "x", Task: api.Task{Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "true"}}}); err != nil {
			t.Fatal(err)
		}
		s.client = gone{}
		s.Settled(t.Context())
		if s.client != nil {
			t.Error("it goes on asking")
		}
		<-time.After(2 * time.Hour)
		if n := s.Numbers(); n.Items != 1 {
			t.Errorf("numbers %+v", n)
		}
	})
}

// gone is a client whose Run has ended.
type gone struct{ masters }

func (gone) Roles() []api.Role { return []api.Role{""} }

func (gone) Demand(api.Demand) error { return errors.New("Run has ended") }
