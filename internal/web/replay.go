package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// eventsMax is how many events are read to piece a moment together. It goes back no further than these.
	eventsMax = 20_000
	// lookupsMax is how many things are looked up one by one: what each was before the first event behind the moment. What
	// the others were is told by that event.
	lookupsMax = 300
	// lifeLooks is how many events of a thing are read to know what it was.
	lifeLooks = 20
	// endedMax is how many tasks that have ended are asked for, to know what they had.
	endedMax = 10_000
)

// replay pieces together how the cluster was at a moment before this process was told of it: it takes back, from the
// first state that is known, what the history says has happened in between. Events say what was there and how it was,
// not what it had; that is what the thing had when it was last seen, if the masters still know.
type replay struct {
	s    *Server
	when time.Time
	// things are the views of what there was, by kind and name.
	things map[[2]string]*apiv1.Change
	said   map[[2]string]*apiv1.Event // the first event behind the moment that says in fields what a thing was
	ended  map[string]*apiv1.TaskView // those that masters still know, by FRAMEWORK/TASK
	known  []*apiv1.PrincipalView     // also those that were revoked
	looks  int
	vague  int // things whose state the next event tells, and nothing before
	gaps   []string
	master string
}

// earlier returns the cluster as it was at a moment, if that is before the first that the mirror knows; nil: it is not.
func (s *Server) earlier(ctx context.Context, m *mirror, when time.Time) (*copied, error) {
	m.mu.Lock()
	since, ready := m.past.since, m.past.pieced[when.Unix()]
	m.mu.Unlock()
	if ready != nil || since.IsZero() || !when.Before(since) {
		return ready, nil
	}
	first, _ := m.at(since)
	r := &replay{s: s, when: when, things: map[[2]string]*apiv1.Change{}, said: map[[2]string]*apiv1.Event{}, ended: map[string]*apiv1.TaskView{}}
	r.begin(first)
	touched, err := r.read(ctx, since)
	if err != nil {
		return nil, err
	}
	r.know(ctx, touched)
	for _, thing := range slices.SortedFunc(maps.Keys(touched), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		r.settle(ctx, thing, touched[thing]) // tasks behind agents and frameworks, whose names they show
	}
	if err := r.recallOffers(ctx, since); err != nil {
		return nil, err
	}
	r.count(first)
	one := copiedAt(slices.Collect(maps.Values(r.things)), r.when) // which sorts them
	one.pieced, one.mean = r.sentences(when, since), r.meanUse(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past.pieced.keep(when, one)
	return one, nil
}

// begin takes the state from which one goes back, without what came later.
func (r *replay) begin(first *copied) {
	keep := func(change *apiv1.Change, came *timestamppb.Timestamp) {
		if kind, name := wire.ChangeName(change); !timeOf(came).After(r.when) {
			r.things[[2]string{kind, name}] = change
		}
	}
	for _, one := range first.agents {
		one = proto.CloneOf(one)
		one.Usage = nil // which is of another time
		keep(&apiv1.Change{View: &apiv1.Change_Agent{Agent: one}}, one.GetAdmitted())
	}
	for _, one := range first.frameworks {
		keep(&apiv1.Change{View: &apiv1.Change_Framework{Framework: one}}, one.GetAdmitted())
	}
	for _, one := range first.tasks() {
		keep(&apiv1.Change{View: &apiv1.Change_Task{Task: one}}, one.GetLaunched())
	}
	for _, one := range first.roles {
		keep(&apiv1.Change{View: &apiv1.Change_Role{Role: one}}, nil)
	}
	for _, one := range first.masters {
		keep(&apiv1.Change{View: &apiv1.Change_Master{Master: one}}, nil)
	}
	for _, one := range first.principals {
		keep(&apiv1.Change{View: &apiv1.Change_Principal{Principal: one}}, one.GetCreated())
	}
	for _, one := range first.offers {
		keep(&apiv1.Change{View: &apiv1.Change_Offer{Offer: one}}, one.GetSince())
	}
}

// read reads what has happened between the moment and the first state. It returns the first event of each thing. If there
// are too many events the moment becomes the first one that all of them reach back to.
func (r *replay) read(ctx context.Context, since time.Time) (touched map[[2]string]*apiv1.Event, err error) {
	touched = map[[2]string]*apiv1.Event{}
	for _, of := range []*apiv1.ListEventsRequest{{Kinds: []string{"agent", "framework", "role", "master", "election", "principal"}, NotableOnly: true}, {Kinds: []string{"task"}}} {
		of.Since, of.Until = timestamppb.New(r.when), timestamppb.New(since.Add(time.Minute)) // clocks differ, and one event more does no harm
		for read := 0; ; {
			page, err := apiv1.NewWatchServiceClient(r.s.config.Cluster).ListEvents(ctx, of)
			if err != nil {
				return nil, err
			}
			r.gaps, r.master = page.GetGaps(), page.GetMasterId()
			for _, event := range page.GetItems() {
				if event.GetKind() == "principal" && timeOf(event.GetAt()).After(r.when) {
					r.takeBackGrant(ctx, event) // one after the other, the newest first
				} else if timeOf(event.GetAt()).After(r.when) {
					thing := [2]string{event.GetKind(), event.GetName()}
					if touched[thing] = event; event.GetSet() != nil {
						r.said[thing] = event
					}
				}
			}
			read += len(page.GetItems())
			if of.PageToken = page.GetNextPageToken(); of.PageToken == "" {
				break
			}
			if read >= eventsMax {
				r.when = timeOf(page.GetItems()[len(page.GetItems())-1].GetAt())
				break
			}
		}
	}
	return touched, nil
}

// know asks what masters still know of tasks that have ended since.
func (r *replay) know(ctx context.Context, touched map[[2]string]*apiv1.Event) {
	for thing, event := range touched { // order: irrelevant because one is enough
		if thing[0] != "task" || event.GetWhat() == "launched" || r.things[thing] != nil {
			continue
		}
		tasks, _, _ := client.All(ctx, r.s.operator.ListTasks, endedMax, &apiv1.ListTasksRequest{All: true})
		for _, task := range tasks {
			r.ended[task.GetFrameworkId()+"/"+task.GetId()] = task
		}
		return
	}
}

// settle says what a thing was at the moment, of which the event is the first one behind it.
func (r *replay) settle(ctx context.Context, thing [2]string, event *apiv1.Event) {
	switch what := event.GetWhat(); {
	case what == "launched" || what == "admitted": // it came later
		delete(r.things, thing)
		return
	case thing[0] == "election": // whose name is its term's
		r.settleLeader(ctx)
		return
	}
	var before []*apiv1.Event
	if r.looks++; r.looks <= lookupsMax {
		list, err := apiv1.NewWatchServiceClient(r.s.config.Cluster).ListEvents(ctx, &apiv1.ListEventsRequest{
			Limit: lifeLooks, Of: thing[0] + "/" + thing[1], Kinds: []string{thing[0]}, Until: timestamppb.New(r.when.Add(time.Nanosecond)), NotableOnly: thing[0] != "task",
		})
		if err == nil {
			before = list.GetItems()
		}
	}
	if len(before) == 0 {
		r.vague++
	}
	switch thing[0] {
	case "task":
		r.settleTask(thing, event, before)
	case "agent":
		r.settleAgent(thing, before)
	case "framework":
		r.settleFramework(thing, before)
	case "role":
		r.settleRole(thing, before)
	case "master":
		r.settleMaster(thing, event)
	}
}

func (r *replay) settleTask(thing [2]string, event *apiv1.Event, before []*apiv1.Event) {
	framework, id, _ := strings.Cut(thing[1], "/")
	task := &apiv1.TaskView{Id: id, FrameworkId: framework}
	if known := cmp.Or(r.things[thing].GetTask(), r.ended[thing[1]]); known != nil {
		task = proto.CloneOf(known)
	}
	about := wire.EventAbout(event)
	task.AgentId, task.Role, task.Owner = cmp.Or(task.GetAgentId(), about["agent"]), cmp.Or(task.GetRole(), about["role"]), cmp.Or(task.GetOwner(), about["owner"])
	if task.GetHostname() == "" {
		task.Hostname, task.FrameworkName = r.namesOf(task.GetAgentId(), framework)
	}
	if job := about["job"]; task.Labels == nil && job != "" {
		task.Labels = map[string]string{api.JobLabel: job}
	}
	task.State, task.Since, task.Reason, task.Message, task.ExitCode, task.Healthy, task.Usage = "RUNNING", nil, "", "", nil, nil, nil
	if event.GetWhat() == "running" {
		task.State = "STAGING"
	}
	for _, one := range before {
		state, err := api.ParseTaskState(strings.ToUpper(strings.ReplaceAll(one.GetWhat(), "launched", "staging")))
		if err != nil {
			continue
		}
		if state.Terminal() {
			delete(r.things, thing)
			return
		}
		task.State, task.Since, task.Message = state.String(), one.GetAt(), one.GetWhy()
		break
	}
	r.things[thing] = &apiv1.Change{View: &apiv1.Change_Task{Task: task}}
}

// agentStates are the states of agents, as events say them.
var agentStates = []string{"initing", "running", "disconnected", "tombstone"}

// lastSet returns what the latest of the events, the newest first, says in fields that a thing was; nil: none does.
func lastSet[T comparable](events []*apiv1.Event, set func(*apiv1.Event) T) (was T) {
	for _, event := range events {
		if was = set(event); was != *new(T) {
			break
		}
	}
	return was
}

// settleAgent: an agent is in the state that was said last, with the mark that was said last. What it had is what it had
// in the first state; one that has gone since had what it said of itself.
func (r *replay) settleAgent(thing [2]string, before []*apiv1.Event) {
	agent := &apiv1.AgentView{Id: thing[1]}
	if known := r.things[thing].GetAgent(); known != nil {
		agent = proto.CloneOf(known)
	} else if was := cmp.Or(lastSet(before, (*apiv1.Event).GetAgent), r.said[thing].GetAgent()); was != nil {
		agent = proto.CloneOf(was)
		agent.Free = agent.GetTotal()
	}
	stated, marked := false, false
	for _, one := range before {
		what := one.GetWhat()
		if slices.Contains(agentStates, what) && !stated {
			stated = true
			agent.State, agent.Since, agent.Why = strings.ToUpper(what), one.GetAt(), one.GetWhy()
		}
		if what == "removed" || what == "gone" {
			delete(r.things, thing)
			return
		}
		if slices.Contains([]string{"draining", "drained", "deactivated", "reactivated"}, what) && !marked {
			marked = true
			agent.Marks = slices.DeleteFunc(agent.Marks, func(mark string) bool { return mark == "draining" || mark == "drained" || mark == "deactivated" })
			if what != "reactivated" {
				agent.Marks = append(agent.Marks, what)
			}
		}
	}
	r.things[thing] = &apiv1.Change{View: &apiv1.Change_Agent{Agent: agent}}
}

func (r *replay) settleFramework(thing [2]string, before []*apiv1.Event) {
	framework := &apiv1.FrameworkView{Id: thing[1]}
	if known := cmp.Or(r.things[thing].GetFramework(), lastSet(before, (*apiv1.Event).GetFramework), r.said[thing].GetFramework()); known != nil {
		framework = proto.CloneOf(known)
	}
	framework.Demand = nil // what it wanted then nobody has written down as numbers
	for _, one := range before {
		switch one.GetWhat() {
		case "removed":
			delete(r.things, thing)
			return
		case "subscribed":
			framework.State, framework.Since, framework.Why = "active", one.GetAt(), one.GetWhy()
		case "disconnected":
			framework.State, framework.Since, framework.Why = "disconnected", one.GetAt(), one.GetWhy()
		default:
			continue
		}
		break
	}
	r.things[thing] = &apiv1.Change{View: &apiv1.Change_Framework{Framework: framework}}
}

// namesOf returns the names for people of an agent and a framework; "": they are not known.
func (r *replay) namesOf(agent, framework string) (host, name string) {
	return r.things[[2]string{"agent", agent}].GetAgent().GetHostname(), r.things[[2]string{"framework", framework}].GetFramework().GetName()
}

// count has agents and frameworks hold what their tasks held then: what they held in the first state, without the tasks
// that came since, and with those that have ended since.
func (r *replay) count(first *copied) {
	held, tasks := map[[2]string]amounts{}, map[[2]string]int32{}
	add := func(task *apiv1.TaskView, by int64) {
		for _, of := range [][2]string{{"agent", task.GetAgentId()}, {"framework", task.GetFrameworkId()}} {
			sum := held[of]
			sum.add(amountsOf(task.GetResources()), by)
			held[of] = sum
			tasks[of] += int32(by)
		}
	}
	for _, task := range first.tasks() {
		add(task, -1)
	}
	for _, change := range r.things { // order: irrelevant because sums do not depend on it
		if task := change.GetTask(); task != nil {
			add(task, 1)
		}
	}
	for thing, change := range r.things { // order: irrelevant because each is counted by itself
		by, more := held[thing], tasks[thing]
		if agent := change.GetAgent(); agent != nil && more != 0 {
			agent = proto.CloneOf(agent)
			agent.Tasks += more
			agent.Allocated, agent.Free = moved(agent.GetAllocated(), by, 1), moved(agent.GetFree(), by, -1)
			r.things[thing] = &apiv1.Change{View: &apiv1.Change_Agent{Agent: agent}}
		}
		if framework := change.GetFramework(); framework != nil && more != 0 {
			framework = proto.CloneOf(framework)
			framework.Tasks += more
			framework.Allocated = moved(framework.GetAllocated(), by, 1)
			r.things[thing] = &apiv1.Change{View: &apiv1.Change_Framework{Framework: framework}}
		}
	}
}

// moved returns resources with others added so many times.
func moved(of *structpb.Struct, by amounts, times float64) *structpb.Struct {
	of = proto.CloneOf(of)
	if of == nil {
		of = &structpb.Struct{}
	}
	if of.Fields == nil {
		of.Fields = map[string]*structpb.Value{}
	}
	for i, kind := range sizes {
		if by[i] == 0 {
			continue
		}
		if sum := of.GetFields()[kind].GetNumberValue() + times*by.of(kind); sum > 0 {
			of.Fields[kind] = structpb.NewNumberValue(sum)
		} else {
			delete(of.Fields, kind)
		}
	}
	return of
}

// sentences say what is known of the moment, and what is not.
func (r *replay) sentences(when, since time.Time) []string {
	said := []string{fmt.Sprintf("This is from before %s, when this page began to look: it is pieced together from the events that master %s has kept. "+
		"What things held is known as far as masters still know them. Nobody has written down what was in an offer, nor what single agents and tasks really used.", momentText(since), r.master)}
	if r.when.After(when) {
		said = append(said, fmt.Sprintf("More than %s events lie between. This is as it was at %s.", grouped(eventsMax), momentText(r.when)))
	}
	if r.vague > 0 {
		said = append(said, fmt.Sprintf("Of %s the history tells only the end of what they were then, not the beginning.", countText(r.vague, "thing")))
	}
	return append(said, r.gaps...)
}
