package core_test

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/registry"
)

// TestTranscripts plays the stories in testdata. Each line above the dashes begins with a verb of
// the switch below; what the core does stands under them, with the names of the story.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Story {
		w := newWorld(policyNamed("fairshare"), core.Config{Debug: true})
		w.twins, w.follows = &twins{every: 20, fail: t.Fatalf}, newFollower()
		t.Cleanup(w.twins.compare)
		w.lead()
		return w
	})
}

// Said is what was said since it was asked last, with the names of the story.
func (w *world) Said() string {
	said := w.named(w.out.String())
	w.out.Reset()
	return said
}

// minted are the IDs that stories give names.
var minted = regexp.MustCompile(`\b(agent|framework)-[0-9]+\b`)

func (w *world) named(said string) string {
	return minted.ReplaceAllStringFunc(said, func(id string) string {
		if name, ok := w.aliases[id]; ok {
			return name
		}
		return id
	})
}

// spanOf is the span of time that a line names, 0 when it names none.
func spanOf(args transcript.Line, name string) time.Duration {
	text, is := args.Named[name]
	if !is {
		return 0
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return span
}

// Play plays one line of a story.
func (w *world) Play(t *testing.T, line transcript.Line) {
	verbs := []func(string, transcript.Line) bool{
		w.verbOfTime, w.verbOfSettings, w.verbOfAgents, w.verbOfVoices, w.verbOfVolumes, w.verbOfSecrets, w.verbOfUse, w.verbOfFrameworks, w.verbOfOperators, w.verbOfViews,
	}
	if !slices.ContainsFunc(verbs, func(play func(string, transcript.Line) bool) bool { return play(line.Verb, line) }) {
		t.Fatalf("no verb %q", line.Verb)
	}
}

func (w *world) verbOfTime(verb string, args transcript.Line) bool {
	switch verb {
	case "tick":
		span, err := time.ParseDuration(args.Word(0))
		if err != nil {
			panic(err)
		}
		w.pass(span)
	case "away": // the loop did not run for so long
		gap, _ := time.ParseDuration(args.Word(0))
		w.now = w.now.Add(gap)
		w.step(core.Away{Gap: gap})
		w.step(core.Woken{})
	case "clock-set": // the wall clock; the time that passes goes on
		by, _ := time.ParseDuration(args.Word(0))
		w.setClock(by)
		w.step(core.Woken{})
	case "clock-jumps": // while nobody looks
		span, _ := time.ParseDuration(args.Word(0))
		w.now = w.now.Add(span)
	case "failover":
		w.say("m1 leads in term %s", api.Term{Number: w.term.Number + 1})
		w.lead()
		w.settle()
	case "save": // a snapshot
		w.saved = w.registry.Clone()
	case "restore": // the last snapshot, or an empty one of the same cluster
		if w.registry = w.saved; w.registry == nil {
			w.registry = registry.New()
			w.registry.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
		}
		w.registry.BeginAnew(w.now)
		w.lead()
		w.settle()
	case "quorum":
		w.stopped = args.Word(0) == "stops"
		w.settle()
	case "commit":
		w.commitStopped(args.Word(0) == "once")
	case "unwritable": // the last proposal is too large to be written
		command := w.proposed[len(w.proposed)-1]
		w.proposed = w.proposed[:len(w.proposed)-1]
		w.step(core.ProposalRefused{Client: command.Client, Counter: command.Counter, Err: api.E("raft.propose", api.Limit, "", errors.New("too large"))})
	default:
		return false
	}
	return true
}

func (w *world) verbOfAgents(verb string, args transcript.Line) bool {
	a := w.agents[args.Word(0)]
	switch verb {
	case "agent":
		w.newAgent(args)
	case "back":
		w.agentBack(a, args)
	case "report":
		w.late, _ = strconv.ParseUint(args.Named["late"], 10, 64)
		w.report(a)
		w.late = 0
	case "cut":
		conn := a.conn
		a.conn = 0
		w.step(core.AgentClosed{Conn: conn})
	case "silence":
		a.silent = true
	case "wake":
		a.silent = false
	case "unable": // to start anything, for the reason that follows; without one it can again
		a.unable = strings.ReplaceAll(args.Word(1), "_", " ")
		w.agentSays(a, protocol.AgentHeartbeat{Usage: a.sample(w.now), Unable: a.unable})
	case "forget": // the agent loses a task, or all statuses of it
		if args.Word(2) == "statuses" {
			t := a.tasks[w.ref(args.Word(1))]
			t.Status.Number, t.Status.State, t.Ended = 0, api.TaskStaging, false
			break
		}
		delete(a.tasks, w.ref(args.Word(1)))
	case "status":
		w.statusLine(args)
	case "executor-ends": // next=: from this launch on they are still on their way
		ref := api.ExecutorRef{Framework: w.frameworks[args.Word(1)].info.ID, Executor: api.ExecutorID(args.Word(2))}
		delete(a.executors, ref)
		next, _ := strconv.ParseUint(args.Named["next"], 10, 64)
		w.agentSays(a, protocol.ExecutorEnded{ExecutorRef: ref, Message: "exit status 1", NextLaunch: next})
	case "kill-taken":
		w.agentSays(a, protocol.KillTaken{TaskRef: w.ref(args.Word(1))})
	default:
		return false
	}
	return true
}

func (w *world) newAgent(args transcript.Line) {
	a := &fakeAgent{
		name:      args.Word(0),
		nonce:     api.Nonce("nonce-" + args.Word(0)),
		boot:      "boot-1",
		tasks:     make(map[api.TaskRef]*fakeTask),
		settled:   make(map[api.TaskRef]*fakeTask),
		executors: make(map[api.ExecutorRef]protocol.ReportedExecutor),
		copies:    make(map[api.FrameworkID]api.Framework),
		told:      make(map[api.VolumeID]uint64),
	}
	a.info = api.Agent{Hostname: "host-" + a.name, Resources: resourcesOf(args)}
	a.info.Zone, a.version, a.keepsNone = args.Named["zone"], args.Named["version"], args.Named["receipts"] == "no"
	if host := args.Named["host"]; host != "" {
		a.info.Hostname = host
	}
	a.info.Address = args.Named["address"]
	if rack := args.Named["rack"]; rack != "" {
		a.info.Attributes = map[string]string{"rack": rack}
	}
	w.agents[a.name] = a
	w.register(a)
	if a.conn != 0 && args.Named["beat"] != "no" {
		w.agentSays(a, protocol.AgentHeartbeat{})
	}
}

// resourcesOf reads the keys that are no other words: cpus=4 mem=1024 ports=[1-2].
func resourcesOf(args transcript.Line) api.Resources {
	var parts []string
	for _, name := range []string{"cpus", "mem", "disk", "ports", "gpus"} {
		if amount := args.Named[name]; amount != "" {
			parts = append(parts, name+":"+amount)
		}
	}
	if static := args.Named["static"]; static != "" {
		parts = append(parts, static)
	}
	resources, err := api.ParseResources(strings.Join(parts, ";"))
	if err != nil {
		panic(err)
	}
	return resources
}

// agentBack opens a new stream of an agent and, unless told otherwise, reports.
func (w *world) agentBack(a *fakeAgent, args transcript.Line) {
	a.silent = false
	if boot := args.Named["boot"]; boot != "" {
		a.boot, a.rebooted = boot, true
	}
	if host := args.Named["host"]; host != "" {
		a.info.Hostname = host
	}
	if version := args.Named["version"]; version != "" {
		a.version = version
	}
	if cpus := args.Named["cpus"]; cpus != "" {
		a.info.Resources = resourcesOf(args)
	}
	if n, err := strconv.ParseUint(args.Named["term"], 10, 64); err == nil {
		a.term.Number = n
	}
	before := a.conn
	w.other = api.ClusterID(args.Named["cluster"])
	w.register(a)
	w.other = ""
	a.older = before
	if before != 0 && args.Named["boot"] != "" && args.Named["report"] != "no" {
		w.step(core.AgentClosed{Conn: before}) // the booted host knows nothing of that stream
	}
	if a.conn != 0 && args.Named["report"] != "no" {
		w.agentSays(a, protocol.AgentHeartbeat{Unable: a.unable})
		w.report(a)
	}
}

// ref reads f1/t1.
func (w *world) ref(text string) api.TaskRef {
	framework, task, _ := strings.Cut(text, "/")
	if f := w.frameworks[framework]; f != nil {
		return api.TaskRef{Framework: f.info.ID, Task: api.TaskID(task)}
	}
	return api.TaskRef{Framework: api.FrameworkID(framework), Task: api.TaskID(task)}
}

func (w *world) statusLine(args transcript.Line) {
	ref := w.ref(args.Word(1))
	state, err := api.ParseTaskState(args.Word(2))
	if err != nil {
		panic(err)
	}
	a := w.agents[args.Word(0)]
	if a.tasks[ref] == nil {
		w.say("NO TASK %s on %s", ref, a.name)
		return
	}
	var reason api.Reason
	for r := api.ReasonExecutorTerminated; r <= api.ReasonTaskGroupFailed; r++ {
		if r.String() == args.Word(3) {
			reason = r
		}
	}
	a.tasks[ref].Status.Previous, _ = strconv.ParseUint(args.Named["after"], 10, 64)
	w.status(a, ref, state, reason)
}

func (w *world) verbOfFrameworks(verb string, args transcript.Line) bool {
	f := w.frameworks[args.Word(0)]
	switch verb {
	case "framework":
		w.newFramework(args)
	case "subscribe":
		if instance := args.Named["instance"]; instance != "" {
			f.instance = api.Nonce(instance)
		}
		if version := args.Named["version"]; version != "" {
			f.version = version
		}
		if args.Named["memory"] == "no" {
			f.tasks = make(map[api.TaskID]protocol.UnsettledTask)
		}
		if n, err := strconv.ParseUint(args.Named["term"], 10, 64); err == nil {
			f.term.Number = n
		}
		w.other = api.ClusterID(args.Named["cluster"])
		f.later = args.Named["states"] == "later"
		w.subscribe(f)
		w.other = ""
	case "leave":
		conn := f.conn
		f.hangUp()
		w.step(core.SchedulerClosed{Conn: conn})
	case "mute":
		f.silent = true
	case "accept":
		w.acceptLine(f, args)
	case "decline":
		w.call(f, protocol.Decline{Offers: offerIDs(args.Word(1)), Filter: filterOf(args)})
	case "ack":
		w.acknowledgeLine(f, args)
	case "kill":
		id := api.TaskID(args.Word(1))
		w.call(f, protocol.Kill{Task: id, Agent: f.tasks[id].Agent, Grace: spanOf(args, "grace")})
	case "reconcile":
		w.reconcileLine(f, args)
	case "settle": // a scheduler that asked to be told later is told the states of its tasks now
		w.call(f, protocol.Unsettled{Last: true})
	case "operations": // asks for the results of those named, or of all
		var ids []api.OperationID
		for _, id := range args.Words[1:] {
			ids = append(ids, api.OperationID(id))
		}
		w.call(f, protocol.ReconcileOperations{Operations: ids})
	case "suppress":
		w.call(f, protocol.Suppress{})
	case "revive":
		w.call(f, protocol.Revive{})
	case "demand":
		w.demandLine(f, args)
	case "message":
		w.call(f, protocol.MessageExecutor{Agent: w.agents[args.Word(1)].info.ID, Executor: api.ExecutorID(args.Word(2)), Data: []byte(cmp.Or(args.Word(3), "hello"))})
	case "shutdown":
		w.call(f, protocol.ShutdownExecutor{Agent: w.agents[args.Word(1)].info.ID, Executor: api.ExecutorID(args.Word(2))})
	case "update":
		info := f.info
		info.Roles, info.Revocable = rolesOf(args), args.Word(1) == "revocable"
		if constraint, ok := args.Named["constraint"]; ok {
			info.Constraint = constraint
		}
		info.FailoverTimeout = spanOf(args, "failover")
		w.call(f, protocol.UpdateFramework{Framework: info})
	case "teardown":
		w.call(f, protocol.Teardown{})
	case "repeat": // the last call number comes again
		f.call--
		w.call(f, protocol.Decline{Offers: offerIDs(args.Word(1))})
	case "stay":
		w.call(f, protocol.AnswerInverse{Offers: offerIDs(args.Word(1))})
	case "yield":
		w.call(f, protocol.AnswerInverse{Offers: offerIDs(args.Word(1)), Accept: true})
	default:
		return false
	}
	return true
}

func (w *world) newFramework(args transcript.Line) {
	f := &fakeFramework{name: args.Word(0), instance: api.Nonce("instance-" + args.Word(0)), tasks: make(map[api.TaskID]protocol.UnsettledTask)}
	f.info = api.Framework{Name: f.name, Roles: rolesOf(args), FailoverTimeout: spanOf(args, "failover"), Constraint: args.Named["constraint"]}
	if bytes, err := strconv.Atoi(args.Named["labels"]); err == nil {
		f.info.Labels = map[string]string{"label": strings.Repeat("x", bytes)}
	}
	if args.Named["detached"] == "yes" {
		f.info.Labels = map[string]string{api.DetachedLabel: "yes"}
	}
	if name, ok := args.Named["name"]; ok {
		f.info.Name = name
	}
	if id := args.Named["id"]; id != "" {
		f.info.ID = api.FrameworkID(id)
		if other := w.frameworks[id]; other != nil {
			f.info.ID = other.info.ID
		}
	}
	f.info.Standby = args.Named["standby"] == "yes"
	f.info.Revocable = args.Word(1) == "revocable"
	f.info.Principal, f.runs, f.runsAs = args.Named["principal"], rolesIn(args.Named["runs"]), args.Named["user"]
	w.frameworks[f.name] = f
	var suppressed []api.Role
	if args.Named["suppressed"] == "yes" {
		suppressed = f.info.Roles
	}
	w.subscribe(f, suppressed...)
}

func rolesOf(args transcript.Line) []api.Role { return rolesIn(args.Named["role"]) }

func rolesIn(text string) []api.Role {
	var roles []api.Role
	for role := range strings.SplitSeq(text, ",") {
		if role != "" {
			roles = append(roles, api.Role(role))
		}
	}
	return roles
}

func offerIDs(text string) []api.OfferID {
	var ids []api.OfferID
	for id := range strings.SplitSeq(text, ",") {
		ids = append(ids, api.OfferID(id))
	}
	return ids
}

func filterOf(args transcript.Line) api.Filter { return api.Filter{Refuse: spanOf(args, "refuse")} }

func (w *world) acknowledgeLine(f *fakeFramework, args transcript.Line) {
	id := api.TaskID(args.Word(1))
	number, err := strconv.ParseUint(args.Word(2), 10, 64)
	if err != nil {
		panic(err)
	}
	agent := w.agents[args.Word(3)]
	if agent == nil {
		for _, name := range sortedNames(w.agents) {
			if w.agents[name].tasks[api.TaskRef{Framework: f.info.ID, Task: id}] != nil {
				agent = w.agents[name]
			}
		}
	}
	if agent == nil {
		w.say("NO AGENT has task %s", id)
		return
	}
	w.call(f, protocol.Acknowledge{Items: []protocol.Acknowledgement{{Framework: f.info.ID, Task: id, Agent: agent.info.ID, Number: number}}})
}

// reconcileLine reads: reconcile f1 t1@a1 t2@a9:RUNNING t3@a1:STAGING#2, where 2 is the last
// status number; no task names all.
func (w *world) reconcileLine(f *fakeFramework, args transcript.Line) {
	var call protocol.Reconcile
	for _, text := range args.Words[1:] {
		task, place, _ := strings.Cut(text, "@")
		place, number, _ := strings.Cut(place, "#")
		name, state, _ := strings.Cut(place, ":")
		u := protocol.UnsettledTask{Task: api.TaskID(task), Agent: api.AgentID(name)}
		u.Number, _ = strconv.ParseUint(number, 10, 64)
		if a := w.agents[name]; a != nil {
			u.Agent = a.info.ID
		}
		u.State, _ = api.ParseTaskState(state)
		call.Tasks = append(call.Tasks, u)
	}
	w.call(f, call)
}

// demandLine reads: demand f1 role=web 3xcpus:1;mem:32 1xcpus:1@a1 - of a1 only; without shapes it wants nothing.
func (w *world) demandLine(f *fakeFramework, args transcript.Line) {
	call := protocol.SetDemand{Demand: api.Demand{Role: api.Role(args.Named["role"])}}
	for _, text := range args.Words[1:] {
		if text == "unstated" {
			call.Unstated = true
			continue
		}
		call.Shapes = append(call.Shapes, w.shapeOf(text))
	}
	w.call(f, call)
}

// shapeOf reads 3xcpus:1;mem:32, and behind @ the only agent on which it is wanted.
func (w *world) shapeOf(text string) api.Shape {
	count, ask, _ := strings.Cut(text, "x")
	n, _ := strconv.ParseInt(count, 10, 64)
	ask, only, waits := strings.Cut(ask, "@")
	resources, _ := api.ParseResources(ask)
	shape := api.Shape{Resources: resources, Count: n, OnlyPreferred: waits}
	if waits {
		shape.Preferred = []api.AgentID{api.AgentID(w.said(only))}
	}
	return shape
}

func (w *world) verbOfOperators(verb string, args transcript.Line) bool {
	switch verb {
	case "operator": // who asks from now on: operator ann may=operate role=eng; or: operator anybody
		w.by = rights.All()
		if verb := args.Named["may"]; verb != "" {
			grant := rights.Grant{Verb: rights.Verb(verb), Role: api.Role(args.Named["role"]), Agent: args.Named["agent"], Framework: args.Named["framework"]}
			w.by = rights.Scope{Who: args.Word(0), Grants: []rights.Grant{grant}}
		}
		w.by.Own = args.Named["own"] == "yes"
	case "operator-kill":
		w.request(core.KillTask{Task: w.said(args.Word(0)), Grace: spanOf(args, "grace")})
	case "grant":
		w.request(core.Set{Setting: settings.Grant{Principal: args.Word(0), Grant: rights.Grant{Verb: rights.Verb(args.Word(1))}}})
	case "take":
		w.request(core.Set{Setting: settings.Take{Principal: args.Word(0), Grant: rights.Grant{Verb: rights.Verb(args.Word(1))}}})
	case "revoke":
		w.request(core.Set{Setting: settings.Revoke{Principal: args.Word(0), Why: "left"}})
	case "operator-remove":
		w.request(core.RemoveFramework{Framework: w.said(args.Word(0)), Force: args.Named["force"] == "yes"})
	case "mark":
		w.request(markOf(w.said(args.Word(0)), args))
	case "maintenance": // maintenance a1,a2 in=1h for=30m; "clear" takes it away
		action := core.SetMaintenance{}
		for name := range strings.SplitSeq(args.Word(0), ",") {
			action.Agents = append(action.Agents, w.said(name))
		}
		if args.Word(1) != "clear" {
			action.Window = api.Window{Start: w.now.Add(spanOf(args, "in")), Duration: spanOf(args, "for")}
		}
		w.request(action)
	case "role":
		w.request(roleOf(args))
	case "reserve-on", "unreserve-on", "create-on", "destroy-on":
		w.request(reserveOf(verb, w.said(args.Word(0)), args))
	case "put":
		f := w.frameworks[args.Word(0)]
		id, instance := api.FrameworkID(args.Word(0)), api.Nonce("nobody's")
		if f != nil {
			id, instance = f.info.ID, cmp.Or(api.Nonce(args.Named["instance"]), f.instance)
		}
		session, _ := strconv.ParseUint(args.Named["session"], 10, 64)
		counter, _ := strconv.ParseUint(args.Named["write"], 10, 64)
		w.request(core.StoreWrites{{Instance: instance, Counter: counter, Change: registry.PutEntry{
			Framework: id, Session: session, Key: args.Word(1), Value: []byte(args.Word(2))}}})
	default:
		return false
	}
	return true
}

// said turns the names of the story into what an operator types.
func (w *world) said(text string) string {
	head, rest, both := strings.Cut(text, "/")
	if f := w.frameworks[head]; f != nil {
		head = string(f.info.ID)
	} else if a := w.agents[head]; a != nil {
		head = string(a.info.ID)
	}
	if both {
		return head + "/" + rest
	}
	return head
}

// reserveOf reads "reserve-on a1 role=web resources=cpus:2", "create-on a1 role=web
// volume=v1 size=100".
func reserveOf(verb, agent string, args transcript.Line) core.ReserveOn {
	resources, _ := api.ParseResources(args.Named["resources"])
	size, _ := strconv.Atoi(args.Named["size"])
	kinds := map[string]api.OperationKind{"reserve-on": api.OpReserve, "unreserve-on": api.OpUnreserve, "create-on": api.OpCreate, "destroy-on": api.OpDestroy}
	return core.ReserveOn{Agent: agent, Role: api.Role(args.Named["role"]), Operation: api.Operation{
		Kind: kinds[verb], Resources: resources, Volume: api.VolumeID(args.Named["volume"]), Size: api.Milli(size) * 1000}}
}

func markOf(agent string, args transcript.Line) core.MarkAgent {
	action := core.MarkAgent{Agent: agent, Grace: spanOf(args, "grace"), Force: args.Named["force"] == "yes"}
	switch args.Word(1) {
	case "drain":
		action.Set = api.MarkDraining
	case "deactivate":
		action.Set = api.MarkDeactivated
	case "reactivate":
		action.Clear = api.MarkDraining | api.MarkDrained | api.MarkDeactivated
	case "gone":
		action.Set = api.MarkGone
	case "remove":
		action.Remove = true
	default:
		panic("no mark " + args.Word(1))
	}
	return action
}

func roleOf(args transcript.Line) core.Set {
	setting := settings.Role{Role: api.Role(args.Word(0))}
	if text, ok := args.Named["weight"]; ok {
		weight, _ := strconv.ParseFloat(text, 64)
		setting.Weight = &weight
	}
	if text, ok := args.Named["priority"]; ok {
		priority, _ := strconv.Atoi(text)
		setting.Priority = &priority
	}
	setting.Force = args.Named["force"] != ""
	for key, field := range map[string]**api.Resources{"guarantee": &setting.Guarantee, "limit": &setting.Limit} {
		if text, ok := args.Named[key]; ok {
			resources, _ := api.ParseResources(text)
			*field = &resources
		}
	}
	return core.Set{Setting: setting}
}
