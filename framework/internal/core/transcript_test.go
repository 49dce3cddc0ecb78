package core

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/internal/value"
)

// TestTranscripts plays testdata. Each line of a block is one event, and below it is what the core did. A clone of the
// core is told every event first. It must have the same effects and end in the same state, and the core must not
// notice.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Story { return newWorld(t) })
}

// Play plays one line of a story.
func (w *world) Play(t *testing.T, line transcript.Line) {
	w.t = t
	w.play(line)
}

// Said returns what was printed since the last call.
func (w *world) Said() string { return w.out.Take() }

// world is a core with a clock.
type world struct {
	t      transcript.Tester
	out    *transcript.Out
	core   *Core
	twin   *Core // a clone, which is told the same events
	now    time.Time
	chance uint64
	term   api.Term
}

func newWorld(t transcript.Tester) *world {
	w := &world{t: t, out: &transcript.Out{}, now: transcript.Epoch, term: api.Term{Number: 1}}
	w.configure(transcript.Parse("config"))
	return w
}

// interests has the callbacks by the names that a config line uses for them.
var interests = map[string]Interests{
	"subscribed": InSubscribed, "settled": InSettled, "rescinded": InRescinded, "inverse": InInverseOffers, "messages": InMessages,
	"executors": InExecutorLost, "agents": InAgentLost, "operations": InOperations, "refused": InRefused,
}

// configure makes a new core, by "config [roles=] [suppressed=] [masters=] [wants=] [connect=] [reconcile=] [standby]
// [teardown] [counts]".
func (w *world) configure(a transcript.Line) {
	config := Config{
		Framework:         api.Framework{ID: api.FrameworkID(a.Named["id"]), Name: "test", Roles: rolesOf(a, "roles"), FailoverTimeout: time.Hour, Standby: a.Has("standby")},
		Suppressed:        rolesOf(a, "suppressed"),
		Masters:           a.List("masters"),
		Version:           "v1",
		ConnectTimeout:    w.duration(a.Named["connect"]),
		ReconcileInterval: w.duration(a.Named["reconcile"]),
		TeardownAtEnd:     a.Has("teardown"),
		Counts:            a.Has("counts"),
	}
	if config.Framework.Roles == nil {
		config.Framework.Roles = []api.Role{"*"}
	}
	if len(config.Masters) == 0 {
		config.Masters = []string{"m1:1"}
	}
	for _, name := range a.List("wants") {
		config.Interests |= interests[name]
	}
	w.core = New(config)
	w.twin = w.core.Clone()
}

func rolesOf(a transcript.Line, name string) []api.Role { return named[api.Role](a.List(name)) }

func named[T ~string](words []string) (list []T) {
	for _, word := range words {
		list = append(list, T(word))
	}
	return list
}

func (w *world) duration(text string) time.Duration { return transcript.Duration(w.t, text) }

// line plays a line that the test has composed.
func (w *world) line(text string) { w.play(transcript.Parse(text)) }

func (w *world) play(a transcript.Line) {
	switch a.Verb {
	case "config":
		w.configure(a)
	case "chance":
		w.chance, _ = strconv.ParseUint(a.Word(0), 10, 64)
	case "tick":
		w.tick(w.duration(a.Word(0)))
	case "clock": // time passes while the process does not run
		w.now = w.now.Add(w.duration(a.Word(0)))
	case "busy": // so many calls wait that no other is handed out; they are not shown
		for len(w.core.calls.handed) < HandedMax {
			w.quietly(TurnAsked{Name: "Do", Turn: 99})
		}
	case "idle":
		for range HandedMax {
			w.quietly(Called{})
		}
	case "term":
		w.term.Number, _ = strconv.ParseUint(a.Word(0), 10, 64)
	case "dialed":
		w.awaitDial()
		w.step(Dialed{Err: asError(fault(a))})
	case "session": // the usual beginning of a story
		w.awaitDial()
		w.step(Dialed{})
		w.step(w.heard(protocol.Subscribed{Cluster: "c1", Framework: "framework-1", Session: 1, Master: "master-1"}))
	default:
		w.step(w.happening(a))
	}
}

// awaitDial moves the clock until the core has asked for a stream.
func (w *world) awaitDial() {
	for tries := 0; !w.core.search.dialing; tries++ {
		wake := w.core.Wake()
		if tries == 10 || wake.IsZero() {
			w.t.Fatalf("the core dials nobody")
		}
		w.now = wake
		w.step(Woken{})
	}
}

// asError keeps a nil *api.Error from becoming an error that is not nil.
func asError(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// tick moves the clock, waking the core at each moment that it asked for.
func (w *world) tick(d time.Duration) {
	before := time.Time{}
	transcript.Tick(&w.now, d, func() time.Time {
		wake := w.core.Wake()
		if !wake.IsZero() && wake.Equal(before) {
			w.t.Fatalf("woken at %s, the core asks to be woken then again", wake)
		}
		before = wake
		return wake
	}, func() { w.step(Woken{}) })
}

// quietly shows no effects but calls of Offers.
func (w *world) quietly(what Happening) {
	out := w.out
	w.out = &transcript.Out{}
	w.step(what)
	for line := range strings.Lines(w.out.String()) {
		if strings.Contains(line, "> Offers") {
			out.Say("%s", strings.TrimSuffix(line, "\n"))
		}
	}
	w.out = out
}

func (w *world) step(what Happening) {
	event := Event{At: w.now, Chance: w.chance, What: what}
	before := w.core.Clone()
	same := w.twin.Step(event)
	w.alike("the original has changed with its clone", before, w.core)
	effects := w.core.Step(event)
	w.alike("a clone that is told the same has other effects", effects, same)
	w.alike("a clone that is told the same stands elsewhere", w.core, w.twin)
	for _, effect := range effects {
		if text := show(effect); text != "" {
			w.out.SayAt(w.now, text)
		}
	}
}

func (w *world) alike(otherwise string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		w.t.Fatalf("%s (-original +clone):\n%s", otherwise, cmp.Diff(value.Text(want), value.Text(got)))
	}
}

func (w *world) heard(events ...protocol.SchedulerEvent) Heard {
	return Heard{Term: w.term, Events: events}
}

// kinds has the kinds of errors by their names.
var kinds = func() map[string]api.Kind {
	all := map[string]api.Kind{}
	for kind := api.Kind(0); kind < 64; kind++ {
		all[strings.ReplaceAll(kind.String(), " ", "")] = kind
	}
	return all
}()

// fault reads "kind= [subject=] [op=] [message=]". Without a kind it returns nil.
func fault(a transcript.Line) *api.Error {
	if a.Named["kind"] == "" {
		return nil
	}
	if a.Named["kind"] == "revoked" { // the principal was revoked
		return api.E(a.Named["op"], api.Denied, a.Named["subject"], protocol.Revoked(a.Named["message"]))
	}
	if a.Named["kind"] == "elsewhere" { // it belongs to another cluster
		return api.E(a.Named["op"], api.Denied, a.Named["subject"], protocol.OtherCluster(a.Named["message"]))
	}
	retry, _ := time.ParseDuration(a.Named["retry"]) // 0: the error does not say when to retry
	return api.E(a.Named["op"], kinds[a.Named["kind"]], a.Named["subject"], errors.New(a.Named["message"])).RetryIn(retry)
}

func (w *world) happening(a transcript.Line) Happening {
	switch a.Verb {
	case "started":
		return Started{Instance: "i1"}
	case "heard":
		message := w.heard(w.event(a))
		message.Leader = a.Named["leader"]
		return message
	case "hangup":
		return LinkEnded{Err: fault(a), Leader: a.Named["leader"]}
	case "returned":
		return w.returned(a)
	case "left":
		return Left{}
	}
	return w.wish(a)
}

// returned reads "returned [failed|later|skipped|broken] [launch=OFFERS:TASKS] [reserve=OFFERS:OPERATION] [keep=] [decline=]
// [refuse=]", where a launch and a reservation of the same offers are one answer.
func (w *world) returned(a transcript.Line) Called {
	called := Called{Answers: w.answers(a)}
	for i, name := range outcomeNames {
		if name == a.Word(0) {
			called.Outcome = Outcome(i)
		}
	}
	if called.Outcome == Failed || called.Outcome == Broken {
		called.Err = errors.New("no luck")
	}
	return called
}

func (w *world) answers(a transcript.Line) (answers []api.Answer) {
	filter := api.Filter{Refuse: w.duration(a.Named["refuse"])}
	if offers, tasks, ok := strings.Cut(a.Named["launch"], ":"); ok {
		launch := api.Operation{Kind: api.OpLaunch}
		for _, id := range strings.Split(tasks, ",") {
			launch.Tasks = append(launch.Tasks, api.Task{ID: api.TaskID(id), Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "true"}})
		}
		answers = append(answers, api.Answer{Offers: named[api.OfferID](strings.Split(offers, ",")), Operations: []api.Operation{launch}, Filter: filter})
	}
	if len(answers) == 1 && a.Named["group"] == "yes" { // a "-" names a task that can never run
		answers[0].Operations[0].Kind = api.OpLaunchGroup
		for i := range answers[0].Operations[0].Tasks {
			if task := &answers[0].Operations[0].Tasks[i]; strings.HasPrefix(string(task.ID), "-") {
				task.Command = nil
			}
		}
	}
	if offers, id, ok := strings.Cut(a.Named["reserve"], ":"); ok {
		reserve := api.Operation{Kind: api.OpReserve, ID: api.OperationID(id), Resources: api.Scalars(1, 64)}
		if launch := a.Named["launch"]; strings.HasPrefix(launch, offers+":") {
			answers[0].Operations = append([]api.Operation{reserve}, answers[0].Operations...)
		} else {
			answers = append(answers, api.Answer{Offers: named[api.OfferID](strings.Split(offers, ",")), Operations: []api.Operation{reserve}, Filter: filter})
		}
	}
	if keep := a.List("keep"); len(keep) > 0 {
		answers = append(answers, api.Answer{Offers: named[api.OfferID](keep), Keep: true})
	}
	if decline := a.List("decline"); len(decline) > 0 {
		answers = append(answers, api.Answer{Offers: named[api.OfferID](decline), Filter: filter})
	}
	return answers
}

// event reads an event that a master sends.
func (w *world) event(a transcript.Line) protocol.SchedulerEvent {
	agent, why := api.AgentID(a.Named["agent"]), a.Named["why"]
	switch a.Word(0) {
	case "subscribed":
		cluster := api.ClusterID(a.Named["cluster"])
		if cluster == "" {
			cluster = "c1"
		}
		return protocol.Subscribed{Cluster: cluster, Framework: "framework-1", Session: max(1, a.Number(w.t, "session")), Turn: a.Number(w.t, "turn"), Master: "master-1", Masters: a.List("masters"),
			HeartbeatInterval: w.duration(a.Named["heartbeat"]), SessionTimeout: w.duration(a.Named["timeout"])}
	case "waiting":
		return protocol.Waiting{ActiveInstance: api.Nonce(a.Named["active"])}
	case "heartbeat":
		return protocol.MasterHeartbeat{Masters: a.List("masters")}
	case "offers":
		return protocol.Offers{Offers: w.offered(a)}
	case "rescind":
		return protocol.Rescind{Offers: named[api.OfferID](a.Words[1:]), Why: why}
	case "update":
		return protocol.Update{Status: w.status(a)}
	case "refused":
		return protocol.Refused{Number: a.Number(w.t, "call"), Err: fault(a)}
	case "updated":
		return protocol.FrameworkUpdated{Number: a.Number(w.t, "call")}
	case "operation":
		return protocol.OperationResult{ID: api.OperationID(a.Word(1)), Agent: agent, Err: fault(a)}
	case "settled":
		return protocol.Settled{}
	case "agentlost":
		return protocol.AgentLost{Agent: agent, Gone: a.Has("gone"), Why: why}
	case "inverse":
		return protocol.InverseOffers{Offers: []api.InverseOffer{{ID: api.OfferID(a.Word(1)), Agent: agent}}}
	case "uninverse":
		return protocol.RescindInverse{Offers: named[api.OfferID](a.Words[1:]), Why: why}
	}
	w.t.Fatalf("unknown event %s %v", a.Verb, a.Words)
	return nil
}

func (w *world) offered(a transcript.Line) (offers []api.Offer) {
	timeout := 30 * time.Second
	if text := a.Named["timeout"]; text != "" {
		timeout = w.duration(text)
	}
	role := api.Role("*")
	if text := a.Named["role"]; text != "" {
		role = api.Role(text)
	}
	for _, id := range a.Words[1:] {
		offers = append(offers, api.Offer{ID: api.OfferID(id), Agent: "a1", Role: role, Resources: api.Scalars(4, 1024), Timeout: timeout})
	}
	return offers
}

// These maps have states and reasons by their names.
var (
	states = func() map[string]api.TaskState {
		all := map[string]api.TaskState{}
		for state := api.TaskState(0); state < 32; state++ {
			all[state.String()] = state
		}
		return all
	}()
	reasons = func() map[string]api.Reason {
		all := map[string]api.Reason{"": api.ReasonNone}
		for reason := api.Reason(1); reason < 128; reason++ {
			all[reason.String()] = reason
		}
		return all
	}()
)

// status reads "TASK STATE [n=] [previous=] [agent=] [reason=]". Without agent= it is agent a1; "none" is no agent.
func (w *world) status(a transcript.Line) api.Status {
	agent := api.AgentID(a.Named["agent"])
	switch agent {
	case "":
		agent = "a1"
	case "none":
		agent = ""
	}
	state, known := states[a.Word(2)]
	if !known {
		w.t.Fatalf("unknown state %q", a.Word(2))
	}
	return api.Status{Framework: "framework-1", Task: api.TaskID(a.Word(1)), Agent: agent, State: state, Number: a.Number(w.t, "n"), Previous: a.Number(w.t, "previous"),
		Reason: reasons[strings.ReplaceAll(a.Named["reason"], " ", "_")], Launch: api.LaunchID{Term: api.Term{Number: 1}, Number: a.Number(w.t, "launch")}}
}

// wish reads a request of a caller of the Client.
func (w *world) wish(a transcript.Line) Happening {
	switch a.Verb {
	case "answer":
		return Answered{Answers: w.answers(a)}
	case "kill":
		return KillAsked{Task: api.TaskID(a.Word(0)), Grace: w.duration(a.Named["grace"])}
	case "acknowledge":
		return StatusAcknowledged{Status: api.Status{Task: api.TaskID(a.Word(0)), Number: a.Number(w.t, "n")}}
	case "demand":
		role := api.Role("*")
		if a.Word(0) != "" {
			role = api.Role(a.Word(0))
		}
		stated := DemandStated{Demand: api.Demand{Role: role}, Behind: a.Number(w.t, "behind")}
		if count := a.Number(w.t, "count"); count > 0 {
			stated.Demand.Shapes = []api.Shape{{Resources: api.Scalars(1, 64), Count: int64(count)}}
		}
		if huge := a.Number(w.t, "huge"); huge > 0 {
			stated.Demand.Shapes = append([]api.Shape{{Resources: api.Scalars(64, 64), Count: int64(huge)}}, stated.Demand.Shapes...)
		}
		return stated
	case "wanted":
		return WantedAsked{Request: a.Number(w.t, "request"), Role: "*"}
	case "suppress":
		return SuppressAsked{Roles: named[api.Role](a.Words)}
	case "revive":
		return ReviveAsked{Roles: named[api.Role](a.Words)}
	case "message":
		return CallAsked{Call: protocol.MessageExecutor{Agent: "a1", Executor: "e1", Data: []byte(a.Word(0))}}
	case "reconcile":
		return ReconcileAsked{Tasks: named[api.TaskID](a.Words)}
	case "operations":
		return OperationsAsked{Operations: named[api.OperationID](a.Words)}
	case "update":
		roles := rolesOf(a, "roles")
		return UpdateAsked{Request: a.Number(w.t, "request"), Saw: a.Number(w.t, "saw"), Wish: api.Framework{Name: "test", Roles: roles, FailoverTimeout: time.Hour}}
	case "withdraw":
		return UpdateWithdrawn{Request: a.Number(w.t, "request")}
	case "turn":
		return TurnAsked{Name: a.Word(0), Turn: a.Number(w.t, "number")}
	case "teardown":
		return TeardownAsked{}
	}
	w.t.Fatalf("unknown event %s %v", a.Verb, a.Words)
	return nil
}
