package core_test

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// TestTranscripts plays the stories in testdata. Each line above the dashes is a verb of
// the switch below; what the core does stands under them, with the names of the story.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			w := newWorld(policyNamed("fairshare"), core.Config{Debug: true})
			w.twins = &twins{every: 20, fail: t.Fatalf}
			w.lead()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				first := d.Cmd
				for _, arg := range d.CmdArgs {
					first += " " + arg.String()
				}
				for _, line := range append([]string{first}, strings.Split(d.Input, "\n")...) {
					if line = strings.TrimSpace(line); line != "" {
						w.line(t, d, line)
					}
				}
				said := w.named(w.out.String())
				w.out.Reset()
				if said == "" {
					return "nothing"
				}
				return said
			})
			w.twins.compare()
		})
	}
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

// words are a line's arguments.
type words struct {
	plain []string
	keys  map[string]string
}

func split(line string) (string, words) {
	fields := strings.Fields(line)
	parsed := words{keys: make(map[string]string)}
	for _, field := range fields[1:] {
		if key, value, ok := strings.Cut(field, "="); ok {
			parsed.keys[key] = strings.ReplaceAll(value, "_", " ")
		} else {
			parsed.plain = append(parsed.plain, field)
		}
	}
	return fields[0], parsed
}

func (x words) at(i int) string {
	if i < len(x.plain) {
		return x.plain[i]
	}
	return ""
}

func (x words) duration(key string) time.Duration {
	value, _ := time.ParseDuration(x.keys[key])
	return value
}

func (w *world) line(t *testing.T, d *datadriven.TestData, line string) {
	verb, args := split(line)
	if !w.verbOfTime(verb, args) && !w.verbOfSettings(verb, args) && !w.verbOfAgents(verb, args) && !w.verbOfVoices(verb, args) && !w.verbOfUse(verb, args) && !w.verbOfFrameworks(verb, args) && !w.verbOfOperators(verb, args) && !w.verbOfViews(verb, args) {
		d.Fatalf(t, "no verb %q", verb)
	}
}

func (w *world) verbOfTime(verb string, args words) bool {
	switch verb {
	case "tick":
		span, err := time.ParseDuration(args.at(0))
		if err != nil {
			panic(err)
		}
		w.pass(span)
	case "away": // the loop did not run for so long
		gap, _ := time.ParseDuration(args.at(0))
		w.now = w.now.Add(gap)
		w.step(core.Away{Gap: gap})
		w.step(core.Woken{})
	case "clock-jumps": // while nobody looks
		span, _ := time.ParseDuration(args.at(0))
		w.now = w.now.Add(span)
	case "failover":
		w.say("m1 leads in term %s", api.Term{Number: w.term.Number + 1})
		w.lead()
		w.settle()
	case "old-registry": // an empty one of the first format: masters are not yet upgraded
		w.registry = registry.New()
		w.registry.Apply(registry.Command{Change: registry.Bootstrap{Cluster: "tender"}})
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
		w.stopped = args.at(0) == "stops"
		w.settle()
	case "commit":
		w.stopped = false
		w.settle()
		w.stopped = true
	case "unwritable": // the last proposal is too large to be written
		command := w.proposed[len(w.proposed)-1]
		w.proposed = w.proposed[:len(w.proposed)-1]
		w.step(core.ProposalRefused{Client: command.Client, Counter: command.Counter, Err: api.E("raft.propose", api.Limit, "", errors.New("too large"))})
	case "lose": // the outcome of the last proposal is not known
		command := w.proposed[len(w.proposed)-1]
		w.proposed = w.proposed[:len(w.proposed)-1]
		w.step(core.ProposalLost{Counter: command.Counter, Err: api.E("registry.propose", api.Unknown, "", nil)})
	default:
		return false
	}
	return true
}

func (w *world) verbOfAgents(verb string, args words) bool {
	a := w.agents[args.at(0)]
	switch verb {
	case "agent":
		w.newAgent(args)
	case "back":
		w.agentBack(a, args)
	case "report":
		w.late, _ = strconv.ParseUint(args.keys["late"], 10, 64)
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
	case "keeps": // the agent has a volume's folder
		label := api.Label{Name: "disk", Reserved: "web", Dynamic: true, Volume: api.VolumeID(args.at(1))}
		a.volumes = a.volumes.Plus(api.NewResources(api.Resource{Label: label, Scalar: 200_000}))
	case "destroyed": // or not, with err
		if args.keys["err"] == "" {
			a.volumes = a.volumes.Filter(func(l api.Label) bool { return l.Volume != api.VolumeID(args.at(1)) })
		}
		w.agentSays(a, protocol.VolumeDone{Volume: api.VolumeID(args.at(1)), Err: args.keys["err"]})
	case "unable": // to start anything, for the reason that follows; without one it can again
		a.unable = strings.ReplaceAll(args.at(1), "_", " ")
		w.agentSays(a, protocol.AgentHeartbeat{Usage: a.sample(w.now), Unable: a.unable})
	case "forget": // the agent loses a task
		delete(a.tasks, w.ref(args.at(1)))
	case "status":
		w.statusLine(args)
	case "executor-ends":
		ref := api.ExecutorRef{Framework: w.frameworks[args.at(1)].info.ID, Executor: api.ExecutorID(args.at(2))}
		delete(a.executors, ref)
		w.agentSays(a, protocol.ExecutorEnded{ExecutorRef: ref, Message: "exit status 1"})
	case "kill-taken":
		w.agentSays(a, protocol.KillTaken{TaskRef: w.ref(args.at(1))})
	default:
		return false
	}
	return true
}

func (w *world) newAgent(args words) {
	a := &fakeAgent{
		name:      args.at(0),
		nonce:     api.Nonce("nonce-" + args.at(0)),
		boot:      "boot-1",
		tasks:     make(map[api.TaskRef]*fakeTask),
		executors: make(map[api.ExecutorRef]protocol.ReportedExecutor),
		copies:    make(map[api.FrameworkID]api.Framework),
	}
	a.info = api.Agent{Hostname: "host-" + a.name, Resources: resourcesOf(args)}
	a.info.Zone, a.version = args.keys["zone"], args.keys["version"]
	if host := args.keys["host"]; host != "" {
		a.info.Hostname = host
	}
	a.info.Address = args.keys["address"]
	if rack := args.keys["rack"]; rack != "" {
		a.info.Attributes = map[string]string{"rack": rack}
	}
	w.agents[a.name] = a
	w.register(a)
	if a.conn != 0 && args.keys["beat"] != "no" {
		w.agentSays(a, protocol.AgentHeartbeat{})
	}
}

// resourcesOf reads the keys that are no other words: cpus=4 mem=1024 ports=[1-2].
func resourcesOf(args words) api.Resources {
	var parts []string
	for _, name := range []string{"cpus", "mem", "disk", "ports", "gpus"} {
		if amount := args.keys[name]; amount != "" {
			parts = append(parts, name+":"+amount)
		}
	}
	if static := args.keys["static"]; static != "" {
		parts = append(parts, static)
	}
	resources, err := api.ParseResources(strings.Join(parts, ";"))
	if err != nil {
		panic(err)
	}
	return resources
}

// agentBack opens a new stream of an agent and, unless told otherwise, reports.
func (w *world) agentBack(a *fakeAgent, args words) {
	a.silent = false
	if boot := args.keys["boot"]; boot != "" {
		a.boot, a.rebooted = boot, true
	}
	if host := args.keys["host"]; host != "" {
		a.info.Hostname = host
	}
	if version := args.keys["version"]; version != "" {
		a.version = version
	}
	if cpus := args.keys["cpus"]; cpus != "" {
		a.info.Resources = resourcesOf(args)
	}
	if n, err := strconv.ParseUint(args.keys["term"], 10, 64); err == nil {
		a.term.Number = n
	}
	before := a.conn
	w.other = api.ClusterID(args.keys["cluster"])
	w.register(a)
	w.other = ""
	a.older = before
	if before != 0 && args.keys["boot"] != "" && args.keys["report"] != "no" {
		w.step(core.AgentClosed{Conn: before}) // the booted host knows nothing of that stream
	}
	if a.conn != 0 && args.keys["report"] != "no" {
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

func (w *world) statusLine(args words) {
	ref := w.ref(args.at(1))
	state, err := api.ParseTaskState(args.at(2))
	if err != nil {
		panic(err)
	}
	a := w.agents[args.at(0)]
	if a.tasks[ref] == nil {
		w.say("NO TASK %s on %s", ref, a.name)
		return
	}
	var reason api.Reason
	for r := api.ReasonExecutorTerminated; r <= api.ReasonTaskGroupFailed; r++ {
		if r.String() == args.at(3) {
			reason = r
		}
	}
	w.status(a, ref, state, reason)
}

func (w *world) verbOfFrameworks(verb string, args words) bool {
	f := w.frameworks[args.at(0)]
	switch verb {
	case "framework":
		w.newFramework(args)
	case "subscribe":
		if instance := args.keys["instance"]; instance != "" {
			f.instance = api.Nonce(instance)
		}
		if version := args.keys["version"]; version != "" {
			f.version = version
		}
		if args.keys["memory"] == "no" {
			f.tasks = make(map[api.TaskID]protocol.UnsettledTask)
		}
		if n, err := strconv.ParseUint(args.keys["term"], 10, 64); err == nil {
			f.term.Number = n
		}
		w.other = api.ClusterID(args.keys["cluster"])
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
		w.call(f, protocol.Decline{Offers: offerIDs(args.at(1)), Filter: filterOf(args)})
	case "ack":
		w.acknowledgeLine(f, args)
	case "kill":
		id := api.TaskID(args.at(1))
		w.call(f, protocol.Kill{Task: id, Agent: f.tasks[id].Agent, Grace: args.duration("grace")})
	case "reconcile":
		w.reconcileLine(f, args)
	case "operations": // asks for the results of those named, or of all
		var ids []api.OperationID
		for _, id := range args.plain[1:] {
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
		w.call(f, protocol.MessageExecutor{Agent: w.agents[args.at(1)].info.ID, Executor: api.ExecutorID(args.at(2)), Data: []byte(cmp.Or(args.at(3), "hello"))})
	case "shutdown":
		w.call(f, protocol.ShutdownExecutor{Agent: w.agents[args.at(1)].info.ID, Executor: api.ExecutorID(args.at(2))})
	case "update":
		info := f.info
		info.Roles, info.Revocable = rolesOf(args), args.at(1) == "revocable"
		if constraint, ok := args.keys["constraint"]; ok {
			info.Constraint = constraint
		}
		info.FailoverTimeout = args.duration("failover")
		w.call(f, protocol.UpdateFramework{Framework: info})
	case "grow": // an older master lets it say more of itself than is kept today
		info := f.info
		info.Roles = []api.Role{api.DefaultRole}
		bytes, _ := strconv.Atoi(args.keys["labels"])
		info.Labels = map[string]string{"label": strings.Repeat("x", bytes)}
		w.proposed = append(w.proposed, registry.Command{Change: registry.UpdateFramework{Framework: info, Session: 1}})
		w.settle()
	case "teardown":
		w.call(f, protocol.Teardown{})
	case "repeat": // the last call number comes again
		f.call--
		w.call(f, protocol.Decline{Offers: offerIDs(args.at(1))})
	case "stay":
		w.call(f, protocol.AnswerInverse{Offers: offerIDs(args.at(1))})
	case "yield":
		w.call(f, protocol.AnswerInverse{Offers: offerIDs(args.at(1)), Accept: true})
	default:
		return false
	}
	return true
}

func (w *world) newFramework(args words) {
	f := &fakeFramework{name: args.at(0), instance: api.Nonce("instance-" + args.at(0)), tasks: make(map[api.TaskID]protocol.UnsettledTask)}
	f.info = api.Framework{Name: f.name, Roles: rolesOf(args), FailoverTimeout: args.duration("failover"), Constraint: args.keys["constraint"]}
	if bytes, err := strconv.Atoi(args.keys["labels"]); err == nil {
		f.info.Labels = map[string]string{"label": strings.Repeat("x", bytes)}
	}
	if name, ok := args.keys["name"]; ok {
		f.info.Name = name
	}
	if id := args.keys["id"]; id != "" {
		f.info.ID = api.FrameworkID(id)
		if other := w.frameworks[id]; other != nil {
			f.info.ID = other.info.ID
		}
	}
	f.info.Standby = args.keys["standby"] == "yes"
	f.info.Revocable = args.at(1) == "revocable"
	f.info.Principal = args.keys["principal"]
	w.frameworks[f.name] = f
	var suppressed []api.Role
	if args.keys["suppressed"] == "yes" {
		suppressed = f.info.Roles
	}
	w.subscribe(f, suppressed...)
}

func rolesOf(args words) []api.Role {
	var roles []api.Role
	for role := range strings.SplitSeq(args.keys["role"], ",") {
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

func filterOf(args words) api.Filter { return api.Filter{Refuse: args.duration("refuse")} }

func (w *world) acknowledgeLine(f *fakeFramework, args words) {
	id := api.TaskID(args.at(1))
	number, err := strconv.ParseUint(args.at(2), 10, 64)
	if err != nil {
		panic(err)
	}
	agent := w.agents[args.at(3)]
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
func (w *world) reconcileLine(f *fakeFramework, args words) {
	var call protocol.Reconcile
	for _, text := range args.plain[1:] {
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

// demandLine reads: demand f1 role=web 3xcpus:1;mem:32 - without shapes it wants nothing.
func (w *world) demandLine(f *fakeFramework, args words) {
	call := protocol.SetDemand{Demand: api.Demand{Role: api.Role(args.keys["role"])}}
	for _, text := range args.plain[1:] {
		if text == "unstated" {
			call.Unstated = true
			continue
		}
		count, ask, _ := strings.Cut(text, "x")
		n, _ := strconv.ParseInt(count, 10, 64)
		resources, _ := api.ParseResources(ask)
		call.Shapes = append(call.Shapes, api.Shape{Resources: resources, Count: n})
	}
	w.call(f, call)
}

func (w *world) verbOfOperators(verb string, args words) bool {
	switch verb {
	case "operator-kill":
		w.request(core.KillTask{Task: w.said(args.at(0)), Grace: args.duration("grace")})
	case "operator-remove":
		w.request(core.RemoveFramework{Framework: w.said(args.at(0)), Force: args.keys["force"] == "yes"})
	case "mark":
		w.request(markOf(w.said(args.at(0)), args))
	case "maintenance": // maintenance a1,a2 in=1h for=30m; "clear" takes it away
		action := core.SetMaintenance{}
		for name := range strings.SplitSeq(args.at(0), ",") {
			action.Agents = append(action.Agents, w.said(name))
		}
		if args.at(1) != "clear" {
			action.Window = api.Window{Start: w.now.Add(args.duration("in")), Duration: args.duration("for")}
		}
		w.request(action)
	case "format": // all masters know it
		format, _ := strconv.ParseUint(args.at(0), 10, 64)
		w.proposed = append(w.proposed, registry.Command{Change: registry.RaiseFormat{Format: format}})
		w.settle()
	case "role":
		w.request(roleOf(args))
	case "reserve-on", "unreserve-on", "create-on", "destroy-on":
		w.request(reserveOf(verb, w.said(args.at(0)), args))
	case "put":
		f := w.frameworks[args.at(0)]
		id, instance := api.FrameworkID(args.at(0)), api.Nonce("nobody's")
		if f != nil {
			id, instance = f.info.ID, cmp.Or(api.Nonce(args.keys["instance"]), f.instance)
		}
		session, _ := strconv.ParseUint(args.keys["session"], 10, 64)
		counter, _ := strconv.ParseUint(args.keys["write"], 10, 64)
		w.request(core.StoreWrite{Instance: instance, Counter: counter, Change: registry.PutEntry{
			Framework: id, Session: session, Key: args.at(1), Value: []byte(args.at(2))}})
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
func reserveOf(verb, agent string, args words) core.ReserveOn {
	resources, _ := api.ParseResources(args.keys["resources"])
	size, _ := strconv.Atoi(args.keys["size"])
	kinds := map[string]api.OperationKind{"reserve-on": api.OpReserve, "unreserve-on": api.OpUnreserve, "create-on": api.OpCreate, "destroy-on": api.OpDestroy}
	return core.ReserveOn{Agent: agent, Role: api.Role(args.keys["role"]), Operation: api.Operation{
		Kind: kinds[verb], Resources: resources, Volume: api.VolumeID(args.keys["volume"]), Size: api.Milli(size) * 1000}}
}

func markOf(agent string, args words) core.MarkAgent {
	action := core.MarkAgent{Agent: agent, Grace: args.duration("grace"), Force: args.keys["force"] == "yes"}
	switch args.at(1) {
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
		panic("no mark " + args.at(1))
	}
	return action
}

func roleOf(args words) core.SetRole {
	action := core.SetRole{Role: api.Role(args.at(0))}
	if text, ok := args.keys["weight"]; ok {
		weight, _ := strconv.ParseFloat(text, 64)
		action.Weight = &weight
	}
	if text, ok := args.keys["priority"]; ok {
		priority, _ := strconv.Atoi(text)
		action.Priority = &priority
	}
	action.Force = args.keys["force"] != ""
	for key, field := range map[string]**api.Resources{"guarantee": &action.Guarantee, "limit": &action.Limit} {
		if text, ok := args.keys[key]; ok {
			resources, _ := api.ParseResources(text)
			*field = &resources
		}
	}
	return action
}
