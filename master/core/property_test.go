package core_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/view"
)

// chaos drives a world by numbers that rapid draws. The same numbers make the same
// story, whatever the core does.
type chaos struct {
	*world
	t     *rapid.T
	ends  map[api.TaskRef]api.TaskState // what each framework was told
	heard map[api.TaskRef]uint64        // the highest number of a status that it was told
	tasks int

	policyName string
	refused    map[api.FrameworkID]time.Time // when it last left a filter, or may have
	unsure     time.Time                     // when any of them may have left one
	demanded   bool                          // somebody has stated a demand
	asked      int                           // how often promise 9 could be held against the books
}

func newChaos(t *rapid.T, policy string) *chaos {
	x := &chaos{world: newWorld(policyNamed(policy), core.Config{GoneAfter: -1, Debug: true}), t: t, ends: make(map[api.TaskRef]api.TaskState), heard: make(map[api.TaskRef]uint64),
		policyName: policy, refused: make(map[api.FrameworkID]time.Time)}
	x.onEffect, x.held, x.follows = x.watch, make(holdings), newFollower()
	x.follows.seldom = true
	x.spends = &spends{fail: t.Fatalf}
	x.lead()
	return x
}

// watch holds promise 3: one end for each task.
func (x *chaos) watch(effect core.Effect) {
	told, ok := effect.(core.ToScheduler)
	if !ok {
		return
	}
	x.watchOffers(told.Event)
	update, ok := told.Event.(protocol.Update)
	if !ok || x.frameworkOn(told.Conn) == nil {
		return
	}
	ref := update.Status.Ref()
	x.heard[ref] = max(x.heard[ref], update.Status.Number)
	if !update.Status.State.Terminal() {
		return
	}
	if before := x.ends[ref]; before != 0 && before != update.Status.State {
		x.t.Fatalf("%s was told to be %s and now %s\n%s", ref, before, update.Status.State, x.about(string(ref.Task)))
	}
	x.ends[ref] = update.Status.State
}

// action is one move; pick chooses among what there is.
type action struct {
	name string
	do   func(x *chaos, pick int)
}

var actions = []action{
	{"agent", (*chaos).moreAgents},
	{"framework", (*chaos).moreFrameworks},
	{"accept", (*chaos).acceptSome}, {"accept", (*chaos).acceptSome}, {"accept", (*chaos).acceptSome},
	{"decline", (*chaos).declineSome},
	{"status", (*chaos).statusSome}, {"status", (*chaos).statusSome}, {"status", (*chaos).statusSome},
	{"acknowledge", (*chaos).acknowledgeSome}, {"acknowledge", (*chaos).acknowledgeSome},
	{"kill", (*chaos).killSome},
	{"executor", (*chaos).endExecutor},
	{"cut", (*chaos).cutAgent},
	{"silence", (*chaos).silenceAgent},
	{"back", (*chaos).bringBack}, {"back", (*chaos).bringBack},
	{"leave", (*chaos).leaveSome},
	{"subscribe", (*chaos).subscribeSome}, {"subscribe", (*chaos).subscribeSome},
	{"teardown", (*chaos).teardownSome},
	{"mark", (*chaos).markSome},
	{"role", (*chaos).setRole},
	{"demand", (*chaos).demandSome},
	{"use", (*chaos).useSome}, {"use", (*chaos).useSome},
	{"revoke", (*chaos).revokeSome},
	{"quorum", func(x *chaos, pick int) { x.stopped = pick%2 == 0; x.settle(); x.mayHaveRefused() }},
	{"unable", (*chaos).unableSome},
	{"failover", func(x *chaos, pick int) {
		if pick%4 == 0 {
			x.lead()
			x.settle()
		}
	}},
	{"tick", func(x *chaos, pick int) { x.pass(time.Duration(pick) * 50 * time.Millisecond) }},
	{"tick", func(x *chaos, pick int) { x.pass(time.Duration(pick) * time.Second / 5) }},
}

// chosen is one of the values, in the order of their names.
func chosen[V any](m map[string]V, pick int) (V, bool) {
	names := sortedNames(m)
	if len(names) == 0 {
		var none V
		return none, false
	}
	return m[names[pick%len(names)]], true
}

func (x *chaos) moreAgents(pick int) {
	if len(x.agents) < 5 {
		name := fmt.Sprintf("a%d", len(x.agents)+1)
		x.newAgent(transcript.Line{Words: []string{name}, Named: map[string]string{
			"cpus": fmt.Sprint(1 + pick%4), "mem": fmt.Sprint(512 * (1 + pick%3)), "ports": "[31000-31009]"}})
		x.agents[name].remembers = pick%2 == 0
	}
}

func (x *chaos) moreFrameworks(pick int) {
	if len(x.frameworks) < 4 {
		name := fmt.Sprintf("f%d", len(x.frameworks)+1)
		roles := []string{"web", "batch", "web,batch"}
		x.newFramework(transcript.Line{Words: []string{name, []string{"", "revocable"}[pick%2]}, Named: map[string]string{"role": roles[pick%3], "failover": "40s"}})
	}
}

// useSome lets the tasks of an agent use from nothing to a little more than they asked for.
func (x *chaos) useSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok {
		return
	}
	a.uses = make(map[api.TaskRef]api.Usage)
	for ref, t := range a.tasks {
		part := api.Milli(pick % 6)
		a.uses[ref] = api.Usage{CPU: t.Resources.Scalar("cpus") * part / 4, Mem: t.Resources.Scalar("mem") * part / 4}
	}
	x.pass(time.Duration(pick%3) * 8 * time.Second)
}

// revokeSome lets an agent kill a revocable task.
func (x *chaos) revokeSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || a.gone {
		return
	}
	for _, ref := range a.refs() {
		if t := a.tasks[ref]; !t.Ended && t.Resources.HasRevocable() {
			x.status(a, ref, api.TaskKilled, api.ReasonRevoked)
			return
		}
	}
}

func (x *chaos) offer(pick int) (*fakeFramework, api.Offer, bool) {
	f, ok := chosen(x.frameworks, pick)
	if !ok || len(f.offers) == 0 {
		return nil, api.Offer{}, false
	}
	var ids []api.OfferID
	for id := range f.offers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	offer := f.offers[ids[pick%len(ids)]]
	delete(f.offers, offer.ID)
	return f, offer, true
}

func (x *chaos) acceptSome(pick int) {
	f, offer, ok := x.offer(pick)
	if !ok {
		return
	}
	operation := api.Operation{Kind: api.OpLaunch}
	if pick%7 == 0 {
		operation.Kind = api.OpLaunchGroup
	}
	for i := range 1 + pick%3 {
		x.tasks++
		resources := api.Scalars(0.1*float64(1+(pick+i)%12), 32)
		if port := offer.Resources.RangesOf("ports").First(1); pick%5 == 0 && len(port) > 0 && i == 0 {
			resources = resources.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.Ranges{{Begin: port[0], End: port[0]}}}))
		}
		if pick%3 > 0 && offer.Resources.HasRevocable() {
			resources = resources.AsRevocable()
		}
		task := api.Task{ID: api.TaskID(fmt.Sprintf("t%d", x.tasks)), Resources: resources}
		if pick%2 == 0 {
			task.Command = &api.Command{Shell: "true"}
		} else {
			task.Executor = &api.Executor{ID: api.ExecutorID(fmt.Sprintf("e%d", pick%2)), Command: api.Command{Shell: "true"}, Resources: api.Scalars(0.1, 8)}
		}
		operation.Tasks = append(operation.Tasks, task)
		f.tasks[task.ID] = protocol.UnsettledTask{Task: task.ID, Agent: offer.Agent, State: api.TaskStaging}
	}
	operations := []api.Operation{operation}
	if pick%4 == 0 {
		kinds := []api.OperationKind{api.OpReserve, api.OpUnreserve}
		operations = append([]api.Operation{{Kind: kinds[pick/4%2], Resources: api.Scalars(0.2, 16)}}, operations...)
	}
	x.hasRefused(f)
	offers := []api.OfferID{offer.ID}
	if n := len(operation.Tasks); pick%4 > 0 && n > 1 { // in parts
		first, rest := operation, operation
		first.Tasks, rest.Tasks = operation.Tasks[:n-1], operation.Tasks[n-1:]
		x.call(f, protocol.Accept{Offers: offers, Operations: []api.Operation{first}, More: true})
		x.call(f, protocol.Accept{Offers: offers, Operations: []api.Operation{rest}, After: f.call})
		return
	}
	x.call(f, protocol.Accept{Offers: offers, Operations: operations})
}

func (x *chaos) declineSome(pick int) {
	if f, offer, ok := x.offer(pick); ok {
		x.hasRefused(f)
		x.call(f, protocol.Decline{Offers: []api.OfferID{offer.ID}, Filter: api.Filter{Refuse: time.Duration(pick%9-1) * time.Second}})
	}
}

// taskOn picks a living task of an agent.
func (a *fakeAgent) taskOn(pick int) (api.TaskRef, bool) {
	var living []api.TaskRef
	for _, ref := range a.refs() {
		if !a.tasks[ref].Ended {
			living = append(living, ref)
		}
	}
	if len(living) == 0 {
		return api.TaskRef{}, false
	}
	return living[pick%len(living)], true
}

func (x *chaos) statusSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || a.gone {
		return
	}
	ref, ok := a.taskOn(pick / 3)
	if !ok {
		return
	}
	next := map[api.TaskState][]api.TaskState{
		api.TaskStaging:  {api.TaskStarting, api.TaskRunning, api.TaskFailed},
		api.TaskStarting: {api.TaskRunning, api.TaskFinished},
		api.TaskRunning:  {api.TaskRunning, api.TaskFinished, api.TaskFailed, api.TaskKilling},
		api.TaskKilling:  {api.TaskKilled},
	}[a.tasks[ref].Status.State]
	x.status(a, ref, next[pick%len(next)], api.ReasonNone)
}

// acknowledgeSome lets a framework handle what it has heard of a task.
func (x *chaos) acknowledgeSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || len(a.tasks) == 0 {
		return
	}
	refs := a.refs()
	ref := refs[pick%len(refs)]
	if f := x.frameworkNamed(ref.Framework); f != nil && f.conn != 0 && x.heard[ref] > 0 {
		x.call(f, protocol.Acknowledge{Items: []protocol.Acknowledgement{{Task: ref.Task, Agent: a.info.ID, Number: x.heard[ref]}}})
	}
}

func (x *chaos) killSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok {
		return
	}
	if ref, ok := a.taskOn(pick); ok {
		x.request(core.KillTask{Task: ref.String()})
	}
}

// endExecutor ends one that has no living task.
func (x *chaos) endExecutor(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || len(a.executors) == 0 {
		return
	}
	refs := a.executorRefs()
	ref := refs[pick%len(refs)]
	for _, t := range a.tasks {
		if !t.Ended && t.Framework == ref.Framework && t.Task.ExecutorID() == ref.Executor {
			return
		}
	}
	delete(a.executors, ref)
	if a.conn != 0 && a.reported {
		x.agentSays(a, protocol.ExecutorEnded{ExecutorRef: ref})
	}
}

func (x *chaos) cutAgent(pick int) {
	if a, ok := chosen(x.agents, pick); ok && a.conn != 0 {
		conn := a.conn
		a.conn = 0
		x.step(core.AgentClosed{Conn: conn})
	}
}

// silenceAgent: what the leader sends gets lost, and it hears nothing.
// unableSome fills an agent's disk, or empties it.
func (x *chaos) unableSome(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || a.gone {
		return
	}
	a.unable = []string{"", "its disk is full"}[pick/5%2]
	if a.conn != 0 && !a.silent && pick%3 > 0 { // else the next heartbeat says it
		x.agentSays(a, protocol.AgentHeartbeat{Usage: a.sample(x.now), Unable: a.unable})
	}
}

func (x *chaos) silenceAgent(pick int) {
	if a, ok := chosen(x.agents, pick); ok && pick%3 == 0 {
		a.silent = true
	}
}

func (x *chaos) bringBack(pick int) {
	a, ok := chosen(x.agents, pick)
	if !ok || a.gone || a.conn != 0 && !a.silent && pick%5 != 0 {
		return
	}
	args := transcript.Line{Named: map[string]string{}}
	if pick%11 == 0 {
		args.Named["boot"] = fmt.Sprintf("boot-%d-%s", x.conns, a.name)
	}
	x.agentBack(a, args)
	x.resend(a)
}

// resend repeats what is not acknowledged, as agents do in a new session.
func (x *chaos) resend(a *fakeAgent) {
	for _, ref := range a.refs() {
		if t := a.tasks[ref]; t != nil && a.conn != 0 && a.reported && t.Status.Number > 0 {
			x.agentSays(a, protocol.StatusUpdate{Status: t.Status})
		}
	}
}

func (x *chaos) leaveSome(pick int) {
	if f, ok := chosen(x.frameworks, pick); ok && f.conn != 0 {
		conn := f.conn
		f.hangUp()
		x.step(core.SchedulerClosed{Conn: conn})
	}
}

func (x *chaos) subscribeSome(pick int) {
	f, ok := chosen(x.frameworks, pick)
	if !ok || f.conn != 0 && pick%4 != 0 {
		return
	}
	f.silent = false
	x.subscribe(f)
	if f.conn == 0 { // removed: begin anew
		f.info.ID, f.instance = "", api.Nonce(fmt.Sprintf("%s-%d", f.name, x.conns))
		clear(f.tasks)
	}
}

func (x *chaos) teardownSome(pick int) {
	if f, ok := chosen(x.frameworks, pick); ok && f.conn != 0 && pick%3 == 0 {
		x.call(f, protocol.Teardown{})
	}
}

func (x *chaos) markSome(pick int) {
	if a, ok := chosen(x.agents, pick); ok && a.info.ID != "" {
		all := api.MarkDraining | api.MarkDrained | api.MarkDeactivated
		sets := []core.MarkAgent{{Set: api.MarkDeactivated}, {Set: api.MarkDraining}, {Clear: all}, {Clear: all}}
		mark := sets[pick%len(sets)]
		mark.Agent = string(a.info.ID)
		x.request(mark)
	}
}

// setRole changes which role goes first, and sometimes puts a limit on one.
func (x *chaos) setRole(pick int) {
	roles := []api.Role{"web", "batch"}
	setting := settings.Role{Role: roles[pick%2], Priority: new(int)}
	*setting.Priority = pick % 5
	if pick%3 == 0 {
		limit := api.Scalars(float64(1+pick%4), 4096)
		setting.Limit = &limit
	}
	x.request(core.Set{Setting: setting})
}

func (x *chaos) demandSome(pick int) {
	f, ok := chosen(x.frameworks, pick)
	if !ok || f.conn == 0 {
		return
	}
	call := protocol.SetDemand{Demand: api.Demand{Role: f.info.Roles[0]}, Unstated: pick%5 == 0}
	if !call.Unstated {
		call.Shapes = []api.Shape{{Resources: api.Scalars(0.1*float64(1+pick%9), 64), Count: int64(1 + pick%4)}}
	}
	x.call(f, call)
}

// move plays one action and looks at the books.
func (x *chaos) move(action action, pick int) {
	x.say("> %s %d", action.name, pick)
	action.do(x, pick)
	if err := cmp.Or(x.core.CheckBooks(), x.held.check(x.core), x.follows.check(x.core)); err != nil {
		x.t.Fatalf("after %s: %v\n%s", action.name, err, tail(x.out.String()))
	}
	x.nothingLies()
}

// calm brings everybody back and ends every task; then whatever there is must be on
// offer (promise 9): nothing was lost in any book.
func (x *chaos) calm() {
	x.stopped = false
	x.settle()
	for _, name := range sortedNames(x.agents) {
		a := x.agents[name]
		a.unable = ""
		x.agentBack(a, transcript.Line{Named: map[string]string{}})
		if a.conn == 0 || !a.reported { // its first stream is asked, and says nothing
			x.pass(6 * time.Second)
			x.agentBack(a, transcript.Line{Named: map[string]string{}})
		}
		if a.info.ID != "" {
			x.request(core.MarkAgent{Agent: string(a.info.ID), Clear: api.MarkDraining | api.MarkDrained | api.MarkDeactivated})
		}
		for _, ref := range a.refs() {
			t := a.tasks[ref]
			if !t.Ended {
				t.Status.State = api.TaskRunning
				x.status(a, ref, api.TaskFinished, api.ReasonNone)
			}
		}
		for _, ref := range a.executorRefs() {
			delete(a.executors, ref)
			x.agentSays(a, protocol.ExecutorEnded{ExecutorRef: ref})
		}
		x.resend(a)
	}
	for _, name := range sortedNames(x.frameworks) {
		f := x.frameworks[name]
		for f.conn == 0 {
			x.subscribeSome(slices.Index(sortedNames(x.frameworks), name))
		}
		x.call(f, protocol.Suppress{})
	}
	x.pass(time.Minute) // offers, filters and holds end
	for _, role := range []api.Role{"web", "batch"} {
		x.request(core.Set{Setting: settings.Role{Role: role, Limit: new(api.Resources)}})
	}
	for _, name := range sortedNames(x.frameworks) {
		f := x.frameworks[name]
		x.call(f, protocol.SetDemand{Demand: api.Demand{Role: f.info.Roles[0]}, Unstated: true}, protocol.Revive{})
	}
}

func (x *chaos) checkCalm() {
	if len(x.frameworks) == 0 {
		return
	}
	for _, v := range view.PageOf(x.core.View(), view.AgentList, view.Query{}).Items {
		if v.State != api.AgentRunning || !v.Allocated.IsZero() || !v.Free.IsZero() {
			x.t.Fatalf("agent %s is %s (%s) with %v used, %v offered and %v free; all should be on offer\n%s",
				v.Agent.ID, v.State, v.Why, v.Allocated, v.Offered, v.Free, tail(x.out.String()))
		}
	}
	for _, v := range view.PageOf(x.core.View(), view.TaskList, view.Query{}).Items {
		if !v.Status.State.Terminal() {
			x.t.Fatalf("task %s is still %s on %s\n%s", v.Task.ID, v.Status.State, v.Agent, tail(x.out.String()))
		}
	}
	for _, f := range x.frameworks {
		for id := range f.tasks {
			x.t.Fatalf("%s was never told the end of %s\n%s", f.name, id, x.about(string(id)))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-2500):] }

// TestChaos holds the ledger's promises through whatever happens, and that the same
// events give the same effects, byte for byte.
func TestChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{"fairshare", "priority"}).Draw(t, "policy")
		one, two := newChaos(t, policy), newChaos(t, policy)
		for range rapid.IntRange(20, 150).Draw(t, "moves") {
			action := actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]
			pick := rapid.IntRange(0, 60).Draw(t, "pick")
			one.move(action, pick)
			two.move(action, pick)
		}
		one.calm()
		two.calm()
		if one.out.String() != two.out.String() {
			t.Fatal("the same events gave other effects")
		}
		if err := one.core.CheckBooks(); err != nil {
			t.Fatal(err)
		}
		one.checkCalm()
	})
}

// about returns what the story says of a task, with the moves.
func (x *chaos) about(id string) string {
	var lines []string
	for line := range strings.Lines(x.out.String()) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" /=\n", r) })
		if slices.Contains(words, id) || strings.HasPrefix(line, ">") || strings.Contains(line, "leads") || strings.Contains(line, "registered, session") {
			lines = append(lines, line)
		}
	}
	return tail(strings.Join(lines, ""))
}
