package core

import (
	"iter"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core/life"
	"github.com/tenderhq/tender/master/registry/spent"
	"github.com/tenderhq/tender/master/view"
)

// View returns what can be read of the core, as it is now. Reading changes nothing. Only the shell's loop may read, as
// for Step.
func (c *Core) View() view.Cluster {
	return view.Cluster{Registry: c.registry, Leader: reader{c}, Sees: rights.All()}
}

// reader gives the view what the core knows, for lists and explanations. It decides nothing.
type reader struct{ core *Core }

func (r reader) Agents() iter.Seq[view.AgentBrief] {
	return func(yield func(view.AgentBrief) bool) {
		for id, a := range r.core.agentByID { // order: irrelevant because the view sorts
			if !yield(view.AgentBrief{ID: id, Hostname: a.info.Hostname, State: a.state}) {
				return
			}
		}
	}
}

func (r reader) StateOf(id api.AgentID) api.AgentState { return r.core.agentByID[id].state }

func (r reader) Sizes() iter.Seq[view.AgentSize] {
	return func(yield func(view.AgentSize) bool) {
		for id, a := range r.core.agentByID { // order: irrelevant because the view sums
			if !yield(view.AgentSize{ID: id, State: a.state, Total: a.Total, Used: a.Used, Offered: a.Offered, Revocable: a.Gap, Usage: a.meter.Last().Total}) {
				return
			}
		}
	}
}

func (r reader) Reserved() iter.Seq[api.Resource] {
	return func(yield func(api.Resource) bool) {
		for label, amount := range r.core.inventory.reserved { // order: irrelevant because the view sums
			if !yield(api.Resource{Label: label, Scalar: amount}) {
				return
			}
		}
	}
}

func (r reader) Agent(id api.AgentID) view.Agent {
	c, a := r.core, r.core.agentByID[id]
	free := a.Free()
	switch {
	case a.phase.Dead():
		free = api.Resources{}
	case c.agents.standing.whyWithheld(a) != "": // then no revocable resources are offered
		free = free.Firm()
	}
	return view.Agent{
		State:     a.state,
		Since:     a.since,
		Why:       a.why,
		Missing:   a.gone,
		Allocated: a.Used,
		Offered:   a.Offered,
		Free:      free,
		Revocable: a.Gap,
		Occupied:  a.Used.Firm().Plus(a.meter.Told()),
		Volumes:   view.Volumes{Orphans: a.showOrphans()},
		Apart:     a.apart,
		Tasks:     a.living + len(c.answers.untold(a)),
		MaybeMore: c.answers.maybeMore(a),
		Usage:     a.meter.Last(),
		Leaving:   c.inverses.leaving(a),

		Unacknowledged: a.unacknowledged(),
	}
}

func (r reader) Unreported(on api.AgentID) view.Unreported {
	hold, told := r.core.agents.hold, view.Unreported{Since: r.core.past.Began}
	if on == "" {
		told.Awaited, told.Silent, told.Lost = len(hold.awaited), len(hold.silent), r.core.answers.missesLost()
		return told
	}
	told.Lost = r.core.agentByID[on] == nil && r.core.registry.LostAgent(on)
	if hold.awaited[on] {
		told.Awaited = 1
	}
	if hold.silent[on] {
		told.Silent = 1
	}
	return told
}

func (r reader) Health(id api.AgentID) view.Health { return r.core.health(r.core.agentByID[id]) }

func (r reader) LostAgents() (map[api.AgentID][]api.TaskRef, time.Time) {
	return r.core.answers.lostAgents(), r.core.past.Began
}

func (r reader) Runs(agent api.AgentID, framework api.FrameworkID) bool {
	a := r.core.agentByID[agent]
	if a == nil {
		return false
	}
	for ref := range a.tasks { // order: irrelevant because one is enough
		if ref.Framework == framework {
			return true
		}
	}
	for ref := range a.executors { // order: irrelevant because one is enough
		if ref.Framework == framework {
			return true
		}
	}
	return false
}

func (r reader) Withheld(id api.AgentID) string { return r.core.agentByID[id].withheld }

func (r reader) Allowed(role api.Role, constraints ...string) func(api.AgentID) bool {
	all := r.core.compileAll(constraints...)
	return func(id api.AgentID) bool { return all.hold(role, r.core.agentByID[id]) }
}

func (r reader) Frameworks() iter.Seq[view.FrameworkBrief] {
	return func(yield func(view.FrameworkBrief) bool) {
		for id, fw := range r.core.frameworkByID { // order: irrelevant because the view sorts
			if !yield(view.FrameworkBrief{ID: id, Name: fw.info.Name, Roles: fw.info.Roles, State: fw.state(), Placed: fw.launches.placed}) {
				return
			}
		}
	}
}

// state returns the framework's state as lists show it.
func (fw *framework) state() string {
	switch {
	case fw.removed:
		return view.Removed
	case fw.session != nil:
		return view.Active
	}
	return view.Disconnected
}

func (r reader) Framework(id api.FrameworkID) (view.Framework, bool) {
	fw := r.core.frameworkByID[id]
	if fw == nil {
		return view.Framework{}, false
	}
	shown := view.Framework{
		Framework:    fw.info,
		State:        fw.state(),
		Since:        fw.since,
		Why:          fw.why,
		Refused:      fw.refused,
		FailoverEnds: fw.failover.At,
		Suppressed:   fw.wants.Suppressed(),
		Demand:       fw.wants.Demand(),
		Offers:       len(fw.offers),
		Placed:       fw.launches.placed,
	}
	// Sums are scalars only, because ranges of many agents can't be added up.
	for _, b := range fw.books { // order: irrelevant because it sums
		shown.Allocated = shown.Allocated.Plus(b.used.Resources())
		shown.Offered = shown.Offered.Plus(b.offered.Resources())
		shown.Tasks += b.tasks
	}
	return shown, true
}

func (r reader) Holdings() iter.Seq[view.Holding] {
	return func(yield func(view.Holding) bool) {
		for _, fw := range r.core.frameworkByID { // order: irrelevant because the view sums
			for role, b := range fw.books { // order: irrelevant because the view sums
				if !yield(view.Holding{Role: role, Used: b.used.Resources(), Offered: b.offered.Resources()}) {
					return
				}
			}
		}
	}
}

func (r reader) Decisions(id api.FrameworkID) []view.Decision {
	return r.core.frameworkByID[id].decisions.InOrder()
}

func (r reader) Tasks(of api.FrameworkID) iter.Seq[view.TaskBrief] {
	return func(yield func(view.TaskBrief) bool) {
		if of != "" {
			r.core.frameworkByID[of].visitTasks(yield)
			return
		}
		for _, fw := range r.core.frameworkByID { // order: irrelevant because the view sorts
			if !fw.visitTasks(yield) {
				return
			}
		}
	}
}

func (r reader) TaskRefs(of api.FrameworkID, on api.AgentID) iter.Seq[api.TaskRef] {
	return func(yield func(api.TaskRef) bool) {
		a := r.core.agentByID[on]
		if on != "" && a == nil {
			return
		}
		if a != nil {
			for ref := range a.tasks { // order: irrelevant because the view sorts
				if (of == "" || of == ref.Framework) && !yield(ref) {
					return
				}
			}
			return
		}
		for id, fw := range r.core.frameworkByID { // order: irrelevant because the view sorts
			if of != "" && of != id {
				continue
			}
			for task := range fw.tasks { // order: irrelevant because the view sorts
				if !yield(api.TaskRef{Framework: id, Task: task}) {
					return
				}
			}
		}
	}
}

// visitTasks calls yield for each task until it returns false. The framework may be nil.
func (fw *framework) visitTasks(yield func(view.TaskBrief) bool) bool {
	if fw == nil {
		return true
	}
	for _, t := range fw.tasks { // order: irrelevant because the view sorts
		if !yield(t.brief()) {
			return false
		}
	}
	return true
}

func (t *task) brief() view.TaskBrief {
	return view.TaskBrief{Ref: t.ref, Name: t.name, Agent: t.agent.id, Role: t.role, Owner: t.task.Owner, State: t.status.State}
}

func (r reader) FindTask(ref api.TaskRef) (view.TaskBrief, bool) {
	if fw := r.core.frameworkByID[ref.Framework]; fw != nil && fw.tasks[ref.Task] != nil {
		return fw.tasks[ref.Task].brief(), true
	}
	return view.TaskBrief{}, false
}

func (r reader) Task(ref api.TaskRef) view.Task {
	t := r.core.frameworkByID[ref.Framework].tasks[ref.Task]
	return view.Task{Task: t.whole(), Role: t.role, Resources: t.resources, Status: t.latest(), Launched: t.launched, Usage: t.agent.meter.Last().Tasks[ref]}
}

func (r reader) TaskStates() iter.Seq[api.TaskState] {
	return func(yield func(api.TaskState) bool) {
		for _, a := range r.core.agentByID { // order: irrelevant because the view counts
			for _, t := range a.tasks { // order: irrelevant because the view counts
				if !yield(t.status.State) {
					return
				}
			}
		}
	}
}

func (r reader) Untold() iter.Seq2[api.AgentID, api.TaskRef] {
	return func(yield func(api.AgentID, api.TaskRef) bool) {
		for id, a := range r.core.agentByID { // order: irrelevant because the view sorts
			for _, ref := range r.core.answers.untold(a) {
				if !yield(id, ref) {
					return
				}
			}
		}
	}
}

func (r reader) FindUntold(ref api.TaskRef) (api.AgentID, bool) {
	fw := r.core.frameworkByID[ref.Framework]
	if fw == nil || fw.latest == nil || fw.removed || fw.tasks[ref.Task] != nil {
		return "", false
	}
	if id := fw.latest.absent[ref.Task]; r.core.agentByID[id] != nil && slices.Contains(r.core.answers.untold(r.core.agentByID[id]), ref) {
		return id, true
	}
	id, named := fw.latest.lost[ref.Task]
	return id, named && r.core.agentByID[id] == nil && r.core.registry.LostAgent(id)
}

func (r reader) Apart() iter.Seq2[api.AgentID, *protocol.TaskStub] {
	return func(yield func(api.AgentID, *protocol.TaskStub) bool) {
		for _, id := range sortedKeys(r.core.agentByID) {
			apart := r.core.agentByID[id].apart
			for i := range apart {
				if !yield(id, &apart[i]) {
					return
				}
			}
		}
	}
}

func (r reader) FindEnded(agent api.AgentID, ref api.TaskRef) *protocol.TaskStub {
	a := r.core.agentByID[agent]
	if a == nil {
		return nil
	}
	for i := range slices.Backward(a.stubs) {
		if a.stubs[i].TaskRef == ref {
			return &a.stubs[i]
		}
	}
	return nil
}

func (r reader) Ended() iter.Seq2[api.AgentID, *protocol.TaskStub] {
	return func(yield func(api.AgentID, *protocol.TaskStub) bool) {
		agents := sortedKeys(r.core.agentByID)
		for _, dropped := range []bool{false, true} {
			for _, id := range agents {
				stubs := r.core.agentByID[id].stubs
				for i := range stubs {
					if (stubs[i].Status.State == api.TaskDropped) == dropped && !yield(id, &stubs[i]) {
						return
					}
				}
			}
		}
	}
}

func (r reader) Executors(on api.AgentID) iter.Seq[view.ExecutorBrief] {
	agents := r.core.agentByID
	if a := agents[on]; a != nil {
		agents = map[api.AgentID]*agent{on: a}
	}
	return func(yield func(view.ExecutorBrief) bool) {
		for id, a := range agents { // order: irrelevant because the view sorts
			for ref, x := range a.executors { // order: irrelevant because the view sorts
				if !yield(view.ExecutorBrief{Ref: ref, Agent: id, Hostname: a.info.Hostname, Role: x.role}) {
					return
				}
			}
		}
	}
}

func (r reader) Executor(brief view.ExecutorBrief) (view.Executor, bool) {
	a := r.core.agentByID[brief.Agent]
	if a == nil || a.executors[brief.Ref] == nil {
		return view.Executor{}, false
	}
	x := a.executors[brief.Ref]
	shown := view.Executor{
		ExecutorBrief: brief, FrameworkName: x.framework.info.Name, Resources: x.resources, Launching: x.starter != nil, Usage: a.meter.Last().Executors[brief.Ref],
	}
	for _, t := range a.tasks { // order: irrelevant because it counts
		if t.ref.Framework == brief.Ref.Framework && t.task.ExecutorID() == brief.Ref.Executor && !t.status.State.Terminal() {
			shown.Tasks++
		}
	}
	return shown, true
}

func (r reader) Operations(over bool) iter.Seq2[int, view.Operation] {
	return func(yield func(int, view.Operation) bool) {
		number := 0
		for _, id := range sortedKeys(r.core.agentByID) {
			a := r.core.agentByID[id]
			for _, x := range a.accepts {
				for _, operation := range x.operations {
					shown := r.operation(x.session.framework, id, view.OperationWaits)
					shown.Operation, shown.Role = operation, x.role
					if number++; !yield(number, shown) {
						return
					}
				}
			}
		}
		if !over {
			return
		}
		for _, id := range sortedKeys(r.core.frameworkByID) {
			fw := r.core.frameworkByID[id]
			for _, known := range fw.results.Known() {
				result, _ := fw.results.Find(known)
				shown := r.operation(fw, result.Agent, view.OperationDone)
				if shown.Operation.ID = known; result.Err != nil {
					shown.State, shown.Why = view.OperationRefused, result.Err.Error()
				}
				if number++; !yield(number, shown) {
					return
				}
			}
		}
	}
}

// operation returns what an operation of a framework on an agent shows, whatever has become of it.
func (r reader) operation(fw *framework, agent api.AgentID, state view.OperationState) view.Operation {
	shown := view.Operation{Framework: fw.id, FrameworkName: fw.info.Name, Agent: agent, State: state}
	if a := r.core.agentByID[agent]; a != nil {
		shown.Hostname = a.info.Hostname
	}
	return shown
}

func (r reader) Offers() iter.Seq[view.OfferBrief] {
	return func(yield func(view.OfferBrief) bool) {
		for id, o := range r.core.offers.open { // order: irrelevant because the view sorts
			if !yield(view.OfferBrief{ID: id, Agent: o.agent.id, Framework: o.framework.id, Role: o.role}) {
				return
			}
		}
	}
}

func (r reader) Offer(id api.OfferID) view.Offer {
	return r.core.offers.showOffer(r.core.offers.open[id])
}

func (r reader) IsOpen(id api.OfferID) bool { return r.core.offers.open[id] != nil }

func (r *offers) showOffer(o *offer) view.Offer {
	return view.Offer{Offer: r.shownOffer(o), FrameworkName: o.framework.info.Name, Since: o.made, Expires: o.expires}
}

func (r reader) OffersOf(agent api.AgentID) []view.Offer {
	var shown []view.Offer
	for _, o := range sortedOffers(r.core.agentByID[agent].offers) {
		shown = append(shown, r.core.offers.showOffer(o))
	}
	return shown
}

func (r reader) Shares() allocator.Shares { return r.core.policy.Shares() }

func (r reader) Reasons(framework api.FrameworkID, agent api.AgentID, now time.Time) []string {
	return r.core.policy.Explain(framework, agent, now).Reasons
}

func (r reader) Hold() (view.Hold, bool) {
	return view.Hold{Agents: len(r.core.agents.hold.awaited), Until: r.core.agents.hold.deadline.At}, r.core.agents.hold.holding()
}

func (r reader) Figures() view.Figures {
	c := r.core
	return view.Figures{
		Offers:     len(c.offers.open),
		Schedulers: len(c.sessionByConn),
		Links:      len(c.agents.links),
		Voices:     c.vain.voices,
		Given:      c.agents.overdue.Given(),
		Versions:   c.versions,
		Principals: c.holdings(),
		Spent:      c.accounts.Led(c.now),
	}
}

func (r reader) Usage(now time.Time) spent.Book {
	return r.core.accounts.Added(r.core.registry.Usage, now)
}

// health returns what an operator should look at on the agent, beside its state.
func (c *Core) health(a *agent) view.Health {
	health := view.Health{IsOver: a.Over, BackAs: c.inventory.backAs(a), Refused: a.refused, Unable: a.unable, Overdue: a.phase == life.Overdue}
	health.Uncovered = c.registry.Agents[a.id].Uncovered()
	if a.Over {
		health.Over = a.Used.Firm().Without(a.Total)
	}
	if health.Overdue {
		health.NotMarked = c.agents.overdue.Held()
	}
	return health
}

// versionRefused records that somebody was refused because of its version.
func (b *base) versionRefused(who, why string) {
	b.versions.Count++
	b.versions.At, b.versions.Last = b.now, who+": "+why
	b.warn("version refused", field("who", who), field("why", why))
}
