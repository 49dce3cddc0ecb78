package core

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/value"
)

// TestTranscripts plays testdata. Each line of a block is one event; below stands what the core made of it. A clone of
// the core is told every event first: it has the same effects and stands where the core will stand, and the core does
// not notice.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			w := newWorld(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				w.t, w.out = t, &strings.Builder{}
				for _, line := range strings.Split(d.Input, "\n") {
					w.line(line)
				}
				if w.out.Len() == 0 {
					return "nothing\n"
				}
				return w.out.String()
			})
		})
	}
}

// tester is a *testing.T, or one that finds the shortest history that fails.
type tester interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a core with a clock.
type world struct {
	t      tester
	out    *strings.Builder
	core   *Core
	twin   *Core // is told the same
	now    time.Time
	chance uint64
	term   api.Term
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t tester) *world {
	w := &world{t: t, out: &strings.Builder{}, now: epoch, term: api.Term{Number: 1}}
	w.configure(parse("config"))
	return w
}

// interests by the names that a config line has for them.
var interests = map[string]Interests{
	"subscribed": InSubscribed, "settled": InSettled, "rescinded": InRescinded, "inverse": InInverseOffers, "messages": InMessages,
	"executors": InExecutorLost, "agents": InAgentLost, "operations": InOperations, "refused": InRefused,
}

// configure begins anew, by "config [roles=] [suppressed=] [masters=] [wants=] [connect=] [reconcile=] [standby] [teardown] [counts]".
func (w *world) configure(a args) {
	config := Config{
		Framework:         api.Framework{ID: api.FrameworkID(a.named["id"]), Name: "test", Roles: a.roles("roles"), FailoverTimeout: time.Hour, Standby: a.has("standby")},
		Suppressed:        a.roles("suppressed"),
		Masters:           a.list("masters"),
		Version:           "v1",
		ConnectTimeout:    w.duration(a.named["connect"]),
		ReconcileInterval: w.duration(a.named["reconcile"]),
		TeardownAtEnd:     a.has("teardown"),
		Counts:            a.has("counts"),
	}
	if config.Framework.Roles == nil {
		config.Framework.Roles = []api.Role{"*"}
	}
	if config.Masters == nil {
		config.Masters = []string{"m1:1"}
	}
	for _, name := range a.list("wants") {
		config.Interests |= interests[name]
	}
	w.core = New(config)
	w.twin = w.core.Clone()
}

// args are the words of a line: the first one, bare ones, and name=value. In values "_" stands for a space.
type args struct {
	bare  []string
	named map[string]string
}

func parse(line string) args {
	a := args{named: map[string]string{}}
	for _, word := range strings.Fields(line) {
		if name, text, ok := strings.Cut(word, "="); ok {
			a.named[name] = strings.ReplaceAll(text, "_", " ")
		} else {
			a.bare = append(a.bare, word)
		}
	}
	return a
}

func (a args) word(i int) string {
	if i < len(a.bare) {
		return a.bare[i]
	}
	return ""
}

func (a args) has(word string) bool {
	for _, one := range a.bare {
		if one == word {
			return true
		}
	}
	return false
}

func (a args) number(name string) uint64 {
	n, _ := strconv.ParseUint(a.named[name], 10, 64)
	return n
}

func (a args) list(name string) []string {
	if a.named[name] == "" {
		return nil
	}
	return strings.Split(a.named[name], ",")
}

func (a args) roles(name string) []api.Role { return named[api.Role](a.list(name)) }

func named[T ~string](words []string) (list []T) {
	for _, word := range words {
		list = append(list, T(word))
	}
	return list
}

func (w *world) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) line(line string) {
	a := parse(line)
	switch a.word(0) {
	case "config":
		w.configure(a)
	case "chance":
		w.chance, _ = strconv.ParseUint(a.word(1), 10, 64)
	case "tick":
		w.tick(w.duration(a.word(1)))
	case "clock": // while the process does not run
		w.now = w.now.Add(w.duration(a.word(1)))
	case "busy": // with so many calls that no other is handed out; they are not shown
		for len(w.core.calls.handed) < HandedMax {
			w.quietly(TurnAsked{Name: "Do", Turn: 99})
		}
	case "idle":
		for range HandedMax {
			w.quietly(Called{})
		}
	case "term":
		w.term.Number, _ = strconv.ParseUint(a.word(1), 10, 64)
	case "dialed":
		w.awaitDial()
		w.step(Dialed{Err: asError(a.fault())})
	case "session": // what comes before most stories
		w.awaitDial()
		w.step(Dialed{})
		w.step(w.heard(protocol.Subscribed{Cluster: "c1", Framework: "framework-1", Session: 1, Master: "master-1"}))
	default:
		w.step(w.happening(a, line))
	}
}

// awaitDial moves the clock until the core has asked for a stream.
func (w *world) awaitDial() {
	for tries := 0; !w.core.search.dialing; tries++ {
		wake := w.core.Wake()
		if tries == 10 || wake.IsZero() {
			w.t.Fatal("the core dials nobody")
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
	end, before := w.now.Add(d), time.Time{}
	for wake := w.core.Wake(); !wake.IsZero() && !wake.After(end); wake = w.core.Wake() {
		if wake.After(w.now) {
			w.now = wake
		}
		if wake.Equal(before) {
			w.t.Fatalf("woken at %s, the core asks to be woken then again", wake)
		}
		before = wake
		w.step(Woken{})
	}
	w.now = end
}

// quietly shows nothing but calls of Offers.
func (w *world) quietly(what Happening) {
	out := w.out
	w.out = &strings.Builder{}
	w.step(what)
	for _, line := range strings.SplitAfter(w.out.String(), "\n") {
		if strings.Contains(line, "> Offers") {
			out.WriteString(line)
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
			fmt.Fprintf(w.out, "%6s  %s\n", w.now.Sub(epoch), text)
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

// kinds of errors by their names.
var kinds = func() map[string]api.Kind {
	all := map[string]api.Kind{}
	for kind := api.Kind(0); kind < 64; kind++ {
		all[strings.ReplaceAll(kind.String(), " ", "")] = kind
	}
	return all
}()

// fault reads "kind= [subject=] [op=] [message=]"; nil: there is no kind.
func (a args) fault() *api.Error {
	if a.named["kind"] == "" {
		return nil
	}
	return api.E(a.named["op"], kinds[a.named["kind"]], a.named["subject"], errors.New(a.named["message"]))
}

func (w *world) happening(a args, line string) Happening {
	switch a.word(0) {
	case "started":
		return Started{Instance: "i1"}
	case "heard":
		message := w.heard(w.event(a, line))
		message.Leader = a.named["leader"]
		return message
	case "hangup":
		return LinkEnded{Err: a.fault(), Leader: a.named["leader"]}
	case "returned":
		return w.returned(a)
	case "left":
		return Left{}
	}
	return w.wish(a, line)
}

// returned reads "returned [failed|later|skipped|broken] [launch=OFFERS:TASKS] [reserve=OFFERS:OPERATION] [keep=] [decline=] [refuse=]".
func (w *world) returned(a args) Called {
	called := Called{Answers: w.answers(a)}
	for i, name := range outcomeNames {
		if name == a.word(1) {
			called.Outcome = Outcome(i)
		}
	}
	if called.Outcome == Failed || called.Outcome == Broken {
		called.Err = errors.New("no luck")
	}
	return called
}

func (w *world) answers(a args) (answers []api.Answer) {
	filter := api.Filter{Refuse: w.duration(a.named["refuse"])}
	if offers, tasks, ok := strings.Cut(a.named["launch"], ":"); ok {
		launch := api.Operation{Kind: api.OpLaunch}
		for _, id := range strings.Split(tasks, ",") {
			launch.Tasks = append(launch.Tasks, api.Task{ID: api.TaskID(id), Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "true"}})
		}
		answers = append(answers, api.Answer{Offers: named[api.OfferID](strings.Split(offers, ",")), Operations: []api.Operation{launch}, Filter: filter})
	}
	if offers, id, ok := strings.Cut(a.named["reserve"], ":"); ok {
		reserve := api.Operation{Kind: api.OpReserve, ID: api.OperationID(id), Resources: api.Scalars(1, 64)}
		answers = append(answers, api.Answer{Offers: named[api.OfferID](strings.Split(offers, ",")), Operations: []api.Operation{reserve}, Filter: filter})
	}
	if keep := a.list("keep"); keep != nil {
		answers = append(answers, api.Answer{Offers: named[api.OfferID](keep), Keep: true})
	}
	if decline := a.list("decline"); decline != nil {
		answers = append(answers, api.Answer{Offers: named[api.OfferID](decline), Filter: filter})
	}
	return answers
}

// event reads what a master says.
func (w *world) event(a args, line string) protocol.SchedulerEvent {
	agent, why := api.AgentID(a.named["agent"]), a.named["why"]
	switch a.word(1) {
	case "subscribed":
		cluster := api.ClusterID(a.named["cluster"])
		if cluster == "" {
			cluster = "c1"
		}
		return protocol.Subscribed{Cluster: cluster, Framework: "framework-1", Session: 1, Master: "master-1", Masters: a.list("masters"),
			HeartbeatInterval: w.duration(a.named["heartbeat"]), SessionTimeout: w.duration(a.named["timeout"])}
	case "waiting":
		return protocol.Waiting{ActiveInstance: api.Nonce(a.named["active"])}
	case "heartbeat":
		return protocol.MasterHeartbeat{Masters: a.list("masters")}
	case "offers":
		return protocol.Offers{Offers: w.offered(a)}
	case "rescind":
		return protocol.Rescind{Offers: named[api.OfferID](a.bare[2:]), Why: why}
	case "update":
		return protocol.Update{Status: w.status(a)}
	case "refused":
		return protocol.Refused{Number: a.number("call"), Err: a.fault()}
	case "updated":
		return protocol.FrameworkUpdated{Number: a.number("call")}
	case "operation":
		return protocol.OperationResult{ID: api.OperationID(a.word(2)), Agent: agent, Err: a.fault()}
	case "settled":
		return protocol.Settled{}
	case "agentlost":
		return protocol.AgentLost{Agent: agent, Why: why}
	case "inverse":
		return protocol.InverseOffers{Offers: []api.InverseOffer{{ID: api.OfferID(a.word(2)), Agent: agent}}}
	case "uninverse":
		return protocol.RescindInverse{Offers: named[api.OfferID](a.bare[2:]), Why: why}
	}
	w.t.Fatalf("unknown event %q", line)
	return nil
}

func (w *world) offered(a args) (offers []api.Offer) {
	timeout := 30 * time.Second
	if text := a.named["timeout"]; text != "" {
		timeout = w.duration(text)
	}
	role := api.Role("*")
	if text := a.named["role"]; text != "" {
		role = api.Role(text)
	}
	for _, id := range a.bare[2:] {
		offers = append(offers, api.Offer{ID: api.OfferID(id), Agent: "a1", Role: role, Resources: api.Scalars(4, 1024), Timeout: timeout})
	}
	return offers
}

// states and reasons by their names.
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

// status reads "TASK STATE [n=] [agent=] [reason=]", where what is not said of the agent is a1, and "none" is none.
func (w *world) status(a args) api.Status {
	agent := api.AgentID(a.named["agent"])
	switch agent {
	case "":
		agent = "a1"
	case "none":
		agent = ""
	}
	state, known := states[a.word(3)]
	if !known {
		w.t.Fatalf("unknown state %q", a.word(3))
	}
	return api.Status{Framework: "framework-1", Task: api.TaskID(a.word(2)), Agent: agent, State: state, Number: a.number("n"),
		Reason: reasons[strings.ReplaceAll(a.named["reason"], " ", "_")]}
}

// wish reads what a caller of the Client asks for.
func (w *world) wish(a args, line string) Happening {
	switch a.word(0) {
	case "answer":
		return Answered{Answers: w.answers(a)}
	case "kill":
		return KillAsked{Task: api.TaskID(a.word(1)), Grace: w.duration(a.named["grace"])}
	case "acknowledge":
		return StatusAcknowledged{Status: api.Status{Task: api.TaskID(a.word(1)), Number: a.number("n")}}
	case "demand":
		role := api.Role("*")
		if a.word(1) != "" {
			role = api.Role(a.word(1))
		}
		stated := DemandStated{Demand: api.Demand{Role: role}, Behind: a.number("behind")}
		if count := a.number("count"); count > 0 {
			stated.Demand.Shapes = []api.Shape{{Resources: api.Scalars(1, 64), Count: int64(count)}}
		}
		return stated
	case "wanted":
		return WantedAsked{Request: a.number("request"), Role: "*"}
	case "suppress":
		return SuppressAsked{Roles: named[api.Role](a.bare[1:])}
	case "revive":
		return ReviveAsked{Roles: named[api.Role](a.bare[1:])}
	case "message":
		return CallAsked{Call: protocol.MessageExecutor{Agent: "a1", Executor: "e1", Data: []byte(a.word(1))}}
	case "reconcile":
		return ReconcileAsked{Tasks: named[api.TaskID](a.bare[1:])}
	case "operations":
		return OperationsAsked{Operations: named[api.OperationID](a.bare[1:])}
	case "update":
		roles := a.roles("roles")
		return UpdateAsked{Request: a.number("request"), Saw: a.number("saw"), Wish: api.Framework{Name: "test", Roles: roles, FailoverTimeout: time.Hour}}
	case "withdraw":
		return UpdateWithdrawn{Request: a.number("request")}
	case "turn":
		return TurnAsked{Name: a.word(1), Turn: a.number("number")}
	case "teardown":
		return TeardownAsked{}
	}
	w.t.Fatalf("unknown event %q", line)
	return nil
}
