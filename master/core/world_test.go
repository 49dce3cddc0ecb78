package core_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/clock"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// world is what a core sees: a quorum, agents and schedulers, each as simple as can be.
// Time moves only when told.
type world struct {
	core     *core.Core
	config   core.Config
	policy   func() allocator.Allocator
	registry *registry.State
	saved    *registry.State
	term     api.Term
	now      time.Time

	stopped  bool               // the quorum commits nothing for now
	proposed []registry.Command // on their way
	conns    core.Conn
	requests core.RequestID
	by       rights.Scope // of operators who ask from now on

	agents     map[string]*fakeAgent
	frameworks map[string]*fakeFramework
	aliases    map[string]string // minted IDs by the names of the story
	quiet      bool
	out        strings.Builder
	onEffect   func(core.Effect)
	other      api.ClusterID           // to which the next peer that comes belongs
	late       uint64                  // how many sessions ago an agent's report was meant for
	twins      *twins                  // clones of the core; nil: none is made
	held       holdings                // as the policy was told; nil: not checked
	rows       view.Listing[view.Task] // noted by list-tasks, for read-tasks
	place      int                     // in rows, from which read-tasks goes on
	follows    *follower               // keeps a copy of the lists by what the core notes; nil: nobody does
	spends     *spends                 // nil: who has held how much is not checked
}

// fakeAgent is an agent with its checkpoint.
type fakeAgent struct {
	name      string
	info      api.Agent
	nonce     api.Nonce
	keepsNone bool // shows no receipts
	said      []api.Status
	behind    time.Duration             // its clock
	settled   map[api.TaskRef]*fakeTask // tasks whose end was acknowledged, the last of each ID
	boot      string
	version   string
	conn      core.Conn // 0: away
	older     core.Conn // the stream before that one
	session   uint64
	term      api.Term
	silent    bool
	reported  bool
	tasks     map[api.TaskRef]*fakeTask
	executors map[api.ExecutorRef]protocol.ReportedExecutor
	copies    map[api.FrameworkID]api.Framework
	rebooted  bool
	gone      bool
	volumes   []protocol.Volume         // that have a folder
	told      map[api.VolumeID]uint64   // the generations of the volumes that it was told to make
	uses      map[api.TaskRef]api.Usage // what its heartbeats say; of the others: what they asked for
	frozen    time.Time                 // its samples are all of then; zero = they are fresh
	unable    string                    // why it can start nothing
	remembers bool                      // it reports tasks that have ended
}

type fakeTask struct {
	protocol.ReportedTask
	kill bool
}

// fakeFramework is a scheduler with what its SDK remembers.
type fakeFramework struct {
	name     string
	info     api.Framework
	instance api.Nonce
	version  string
	term     api.Term // the newest that it has heard of
	conn     core.Conn
	call     uint64
	silent   bool
	later    bool // it says itself when it is to be told the states of its tasks
	tasks    map[api.TaskID]protocol.UnsettledTask
	offers   map[api.OfferID]api.Offer
	runs     []api.Role                 // in which its principal may run; none: in all
	runsAs   string                     // the user as which its tasks may run, beside the agents' default
	accepts  map[uint64][]api.Operation // by the call's number; what is refused whole was never started (R3)
}

func newWorld(policy func() allocator.Allocator, config core.Config) *world {
	w := &world{
		config:     config,
		by:         rights.All(),
		policy:     policy,
		registry:   registry.New(),
		now:        clock.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Hour),
		agents:     make(map[string]*fakeAgent),
		frameworks: make(map[string]*fakeFramework),
		aliases:    make(map[string]string),
	}
	w.registry.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
	return w
}

// lead makes a new leader of what the registry says; all streams are gone.
func (w *world) lead() {
	w.term.Number++
	w.config.Master = "m1"
	w.config.Client = "m1/" + w.term.String()
	w.proposed = nil
	for _, a := range w.agents {
		a.conn = 0
	}
	for _, f := range w.frameworks {
		f.hangUp()
	}
	policy := w.twins.listen(w.policy())
	if w.held != nil {
		policy = w.held.listen(policy)
	}
	w.core = core.New(w.config, w.registry, w.term, policy, w.now)
	if w.follows != nil {
		w.follows.begin(w.core)
		w.follows.note(w.core.Changes())
	}
	w.spends.begin(w)
}

func (f *fakeFramework) hangUp() {
	f.conn = 0
	f.offers, f.accepts = make(map[api.OfferID]api.Offer), make(map[uint64][]api.Operation)
}

// step steps one event and all that follows from it at once.
func (w *world) step(what core.Happening) {
	w.tellCore(what)
	w.settle()
	if w.follows != nil && !w.follows.seldom {
		if err := w.follows.check(w.core); err != nil {
			panic(fmt.Sprintf("%v\nafter %T; the story ends with:\n%s", err, what, tail(w.out.String())))
		}
	}
}

func (w *world) tellCore(what core.Happening) {
	event := core.Event{At: w.now, What: what}
	w.spends.around(w, what, func() {
		w.perform(w.tell(func(c *core.Core) []core.Effect { return c.Step(event) }))
	})
}

// restAfter is after how many rounds of the allocator at the latest nothing more changes while nothing happens.
const restAfter = 1000

// settle commits what is proposed and lets the allocator run, until nothing changes.
func (w *world) settle() {
	for range restAfter {
		w.commit()
		now := w.now
		effects := w.tell(func(c *core.Core) []core.Effect { return c.Allocate(now) })
		w.perform(effects)
		if len(effects) == 0 && (w.stopped || len(w.proposed) == 0) {
			return
		}
	}
	story := w.out.String()
	panic(fmt.Sprintf("the core and its policy do not come to rest; the story ends with:\n%s", story[max(0, len(story)-4000):]))
}

func (w *world) commit() {
	for len(w.proposed) > 0 && !w.stopped {
		w.commitProposed()
	}
}

// commitStopped commits while the quorum is stopped: all, or what is proposed at this moment without what follows.
func (w *world) commitStopped(once bool) {
	if w.stopped = once; once {
		w.commitProposed()
	}
	w.settle()
	w.stopped = true
}

func (w *world) commitProposed() {
	commands := w.proposed
	w.proposed = nil
	w.registry.Index++
	for _, command := range commands {
		w.registry.Apply(command)
	}
	w.tellCore(core.Committed{Index: w.registry.Index, Commands: commands})
}

// pass lets time go by: heartbeats every second, in long spans every four, and the core's own deadlines.
func (w *world) pass(span time.Duration) {
	every := time.Second
	if span > 2*time.Hour {
		every = 4 * time.Second
	}
	until := w.now.Add(span)
	beat := w.now.Add(every)
	for {
		next := beat
		if !w.anyoneBeats() {
			next = until.Add(time.Second)
		}
		if wake := w.core.Wake(); !wake.IsZero() && wake.Before(next) {
			next = wake
		}
		if next.After(until) {
			w.now = until
			return
		}
		if next.After(w.now) {
			w.now = next
		}
		if !w.now.Before(beat) {
			w.beat()
			beat = w.now.Add(every)
		}
		w.step(core.Woken{})
	}
}

func (w *world) anyoneBeats() bool {
	for _, a := range w.agents {
		if a.conn != 0 && !a.silent {
			return true
		}
	}
	for _, f := range w.frameworks {
		if f.conn != 0 && !f.silent {
			return true
		}
	}
	return false
}

func (w *world) beat() {
	for _, name := range slices.Sorted(maps.Keys(w.agents)) {
		if a := w.agents[name]; a.conn != 0 && !a.silent {
			w.step(core.AgentCalled{Conn: a.conn, Calls: []protocol.AgentCall{protocol.AgentHeartbeat{Usage: a.sample(w.now), Unable: a.unable}}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.frameworks)) {
		if f := w.frameworks[name]; f.conn != 0 && !f.silent {
			w.call(f, protocol.SchedulerHeartbeat{})
		}
	}
}

func (w *world) call(f *fakeFramework, calls ...protocol.SchedulerCall) {
	var numbered []protocol.NumberedCall
	for _, call := range calls {
		f.call++
		if accept, is := call.(protocol.Accept); is {
			f.accepts[f.call] = accept.Operations
		}
		numbered = append(numbered, protocol.NumberedCall{Number: f.call, Call: call})
	}
	w.step(core.SchedulerCalled{Conn: f.conn, Calls: numbered})
}

// request asks as an operator.
func (w *world) request(action core.Action) {
	w.requests++
	w.step(core.Requested{ID: w.requests, Action: action, By: w.by})
}

// register opens an agent's stream: as a new agent, or as one that has an ID.
func (w *world) register(a *fakeAgent) {
	if a.conn != 0 && !a.silent {
		w.say("%s opens another stream", a.name)
	}
	w.conns++
	a.conn, a.reported = w.conns, false
	if a.info.ID == "" {
		w.step(core.AgentOpened{Conn: a.conn, First: protocol.RegisterAgent{Agent: a.info, Nonce: a.nonce, BootID: a.boot, Version: a.version}})
		return
	}
	w.step(core.AgentOpened{Conn: a.conn, First: protocol.ReregisterAgent{Cluster: w.cluster(), Term: a.term, Agent: a.info, Nonce: a.nonce, BootID: a.boot, Version: a.version}})
}

// cluster is the one that agents and schedulers know.
func (w *world) cluster() api.ClusterID { return cmp.Or(w.other, w.registry.Cluster) }

// report sends what the agent has (R2).
func (w *world) report(a *fakeAgent) {
	page := protocol.AgentReport{Session: a.session - w.late, Last: true, Rebooted: a.rebooted, Volumes: slices.Clone(a.volumes), Stubs: a.stubs()}
	if a.rebooted {
		clear(a.tasks)
		clear(a.executors)
		a.rebooted = false
	}
	if a.uses != nil {
		usage := a.sample(w.now)
		page.Usage = &usage
	}
	for _, ref := range a.refs() {
		page.Tasks = append(page.Tasks, a.tasks[ref].ReportedTask)
	}
	for _, ref := range a.executorRefs() {
		page.Executors = append(page.Executors, a.executors[ref])
	}
	for _, id := range slices.Sorted(maps.Keys(a.copies)) {
		page.Frameworks = append(page.Frameworks, a.copies[id])
	}
	w.agentSays(a, page)
}

func (w *world) agentSays(a *fakeAgent, calls ...protocol.AgentCall) {
	w.step(core.AgentCalled{Conn: a.conn, Calls: calls})
}

func (a *fakeAgent) refs() []api.TaskRef {
	return slices.SortedFunc(maps.Keys(a.tasks), func(x, y api.TaskRef) int { return strings.Compare(x.String(), y.String()) })
}

func (a *fakeAgent) executorRefs() []api.ExecutorRef {
	return slices.SortedFunc(maps.Keys(a.executors), func(x, y api.ExecutorRef) int { return strings.Compare(x.String(), y.String()) })
}

// status makes the next status of a task and sends it, if the agent has a stream.
func (w *world) status(a *fakeAgent, ref api.TaskRef, state api.TaskState, reason api.Reason) {
	t := a.tasks[ref]
	t.Status.Number++
	t.Status.State, t.Status.Reason, t.Status.Source, t.Status.At = state, reason, api.MoverExecutor, w.now.Add(-a.behind)
	if reason != api.ReasonNone {
		t.Status.Source = api.MoverAgent
	}
	t.Ended = state.Terminal()
	a.said = append(a.said, t.Status)
	if a.conn != 0 {
		w.agentSays(a, protocol.StatusUpdate{Status: t.Status})
	}
}

// by is the principal of a framework with what it may.
func (f *fakeFramework) by() rights.Scope {
	by := rights.Scope{Who: f.info.Principal, Everything: len(f.runs) == 0}
	for _, role := range f.runs {
		by.Grants = append(by.Grants, rights.Grant{Verb: rights.Run, Role: role, User: f.runsAs})
	}
	return by
}

// subscribe opens a scheduler's stream and tells what its SDK has not seen end.
func (w *world) subscribe(f *fakeFramework, suppressed ...api.Role) {
	w.conns++
	f.conn, f.call = w.conns, 1
	f.offers, f.accepts = make(map[api.OfferID]api.Offer), make(map[uint64][]api.Operation)
	w.step(core.SchedulerOpened{Conn: f.conn, By: f.by(),
		Subscribe: protocol.Subscribe{Cluster: w.cluster(), Term: f.term, Framework: f.info, Instance: f.instance, Version: f.version, Suppressed: suppressed, TellLater: f.later}})
	if f.conn == 0 {
		return
	}
	page := protocol.Unsettled{Last: !f.later}
	for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
		page.Tasks = append(page.Tasks, f.tasks[id])
	}
	w.call(f, page)
}

func (w *world) agentOn(conn core.Conn) *fakeAgent {
	for _, a := range w.agents {
		if a.conn == conn && conn != 0 {
			return a
		}
	}
	return nil
}

func (w *world) frameworkOn(conn core.Conn) *fakeFramework {
	for _, f := range w.frameworks {
		if f.conn == conn && conn != 0 {
			return f
		}
	}
	return nil
}

func (w *world) say(format string, args ...any) {
	if !w.quiet {
		fmt.Fprintf(&w.out, format+"\n", args...)
	}
}
