package web_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/web"
	"github.com/tenderhq/tender/internal/wire"
)

// historian is a cluster with a history, and with the tasks that have ended.
type historian struct {
	*fake
	views  map[string]*apiv1.Change // by KIND/NAME: what there is
	events []*apiv1.Event
	ended  []*apiv1.TaskView
	silent bool // nobody watches yet
}

func newHistorian() *historian {
	h := &historian{fake: answering("x"), views: map[string]*apiv1.Change{}}
	h.answers["WhoAmI"] = func() (proto.Message, error) { return &apiv1.WhoAmIResponse{Kind: "anybody"}, nil }
	h.answers["ListTasks"] = func() (proto.Message, error) { return &apiv1.ListTasksResponse{Items: h.ended}, nil }
	h.state, h.silent = nil, true
	return h
}

// Invoke answers a question about events by two of them at a time; about one thing, by as many as are asked for.
func (h *historian) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	asked, is := request.(*apiv1.ListEventsRequest)
	if !is {
		return h.fake.Invoke(ctx, method, request, reply, options...)
	}
	var found []*apiv1.Event
	for _, event := range slices.Backward(h.events) {
		at := event.GetAt().AsTime()
		if (asked.Since == nil || !at.Before(asked.GetSince().AsTime())) && (asked.Until == nil || at.Before(asked.GetUntil().AsTime())) &&
			(asked.GetOf() == "" || asked.GetOf() == event.GetKind()+"/"+event.GetName()) && (asked.Kinds == nil || slices.Contains(asked.GetKinds(), event.GetKind())) && (!asked.GetNotableOnly() || event.GetNotable()) {
			found = append(found, event)
		}
	}
	from, _ := strconv.Atoi(asked.GetPageToken())
	answer, page := reply.(*apiv1.ListEventsResponse), 2
	if asked.GetOf() != "" {
		page = int(asked.GetLimit())
	}
	answer.MasterId, answer.Items = "m2", found[from:min(len(found), from+page)]
	if from+page < len(found) {
		answer.NextPageToken = strconv.Itoa(from + page)
	}
	return nil
}

// happen changes a thing and tells everybody: what happened, and what the thing is now.
func (h *historian) happen(what string, change *apiv1.Change) {
	kind, name := wire.ChangeName(change)
	h.views[kind+"/"+name] = change
	if change.GetRemoved() != "" {
		delete(h.views, kind+"/"+name)
	}
	if what != "" {
		change.Event = &apiv1.Event{At: timestamppb.Now(), Kind: kind, Name: name, What: what, Notable: kind != "task"}
		h.events = append(h.events, change.Event)
	}
	if h.state = nil; h.silent {
		for _, view := range h.views { // order: irrelevant because a copy sorts them
			h.state = append(h.state, view)
		}
		return
	}
	h.changed <- change
}

// task has a task launched on an agent, or in another state there; and counts it.
func (h *historian) task(name string, agent int, state string) {
	task := &apiv1.TaskView{
		Id: name, Name: name, FrameworkId: "framework-1", FrameworkName: "f", Role: "eng", State: strings.ToUpper(state), AgentId: fmt.Sprint("agent-", agent), Hostname: fmt.Sprint("node-", agent),
		Since: timestamppb.Now(), Launched: timestamppb.Now(), Resources: amounts(1, 64),
	}
	if was := h.views["task/framework-1/"+name]; was != nil {
		task.Launched = was.GetTask().GetLaunched()
	}
	change := &apiv1.Change{View: &apiv1.Change_Task{Task: task}}
	if state == "finished" {
		h.ended = append(h.ended, task)
		change = &apiv1.Change{Removed: "task/framework-1/" + name}
	}
	what := state
	if state == "staging" {
		what = "launched"
	}
	h.happen(what, change)
	h.agent(agent, "")
	n := 0
	for _, other := range h.views { // order: irrelevant because they are counted
		if other.GetTask() != nil {
			n++
		}
	}
	h.happen("", &apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{
		Id: "framework-1", Name: "f", State: "active", Roles: []string{"eng"}, Tasks: int32(n), Allocated: amounts(n, 64*n), Admitted: h.views["framework/framework-1"].GetFramework().GetAdmitted(),
	}}})
}

// agent has something happen to an agent, or counts what it has.
func (h *historian) agent(i int, what string) {
	id := fmt.Sprint("agent-", i)
	agent := &apiv1.AgentView{Id: id, Hostname: fmt.Sprint("node-", i), State: "RUNNING", Since: timestamppb.Now(), Admitted: timestamppb.Now(), Total: amounts(8, 1024)}
	if was := h.views["agent/"+id]; was != nil {
		agent = proto.CloneOf(was.GetAgent())
	}
	n := 0
	for _, other := range h.views { // order: irrelevant because they are counted
		if other.GetTask().GetAgentId() == id {
			n++
		}
	}
	agent.Tasks, agent.Allocated, agent.Free = int32(n), amounts(n, 64*n), amounts(8-n, 1024-64*n)
	switch what {
	case "draining":
		agent.Marks = []string{"draining"}
	case "reactivated":
		agent.Marks = nil
	case "disconnected", "running":
		agent.State, agent.Since = strings.ToUpper(what), timestamppb.Now()
	}
	h.happen(what, &apiv1.Change{View: &apiv1.Change_Agent{Agent: agent}})
}

func amounts(cpus, mem int) *structpb.Struct {
	all := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for kind, amount := range map[string]int{"cpus": cpus, "mem": mem} {
		if amount > 0 {
			all.Fields[kind] = structpb.NewNumberValue(float64(amount))
		}
	}
	return all
}

// TestTheTimeBeforeIsPiecedTogether: a page that began later shows the lists of a moment as a page showed them that was
// there, by what the history says; and says that it has pieced them together. (Protocol rule R88.)
func TestTheTimeBeforeIsPiecedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newHistorian()
		for i := range 3 {
			cluster.agent(i, "admitted")
			cluster.agent(i, "running")
		}
		cluster.happen("admitted", &apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: "framework-1", Name: "f", State: "active", Admitted: timestamppb.Now()}}})
		for i, name := range []string{"stays", "ends", "moves"} {
			cluster.task(name, i, "staging")
			cluster.task(name, i, "running")
		}
		cluster.silent = false
		early := web.New(web.Config{Cluster: cluster})
		defer early.End()
		lists := []string{"/tasks", "/agents", "/frameworks"}
		shown := func(page *web.Server, path string) string {
			_, main, _ := strings.Cut(ask(page.Handler(), http.MethodGet, path).Body.String(), "<section")
			main, _, _ = strings.Cut(main, "</main>")
			return onlyNow.ReplaceAllString(main, "")
		}
		saved := map[int64]map[string]string{}
		save := func() {
			<-time.After(10 * time.Second)
			saved[time.Now().Unix()] = map[string]string{}
			for _, path := range lists {
				saved[time.Now().Unix()][path] = shown(early, path)
			}
			<-time.After(10 * time.Second)
		}
		shown(early, "/tasks")
		save()
		cluster.task("new", 1, "staging")
		cluster.agent(2, "draining")
		save()
		cluster.task("new", 1, "running")
		cluster.task("ends", 1, "finished")
		cluster.task("moves", 2, "killing")
		cluster.agent(0, "disconnected")
		save()
		cluster.task("moves", 2, "finished")
		cluster.agent(0, "running")
		cluster.agent(2, "reactivated")
		save()
		cluster.task("short", 1, "staging")
		cluster.task("short", 1, "finished")
		cluster.agent(3, "admitted")
		was := cluster.views["agent/agent-2"].GetAgent()
		cluster.happen("removed", &apiv1.Change{Removed: "agent/agent-2"})
		cluster.last().Set = &apiv1.Event_Agent{Agent: &apiv1.AgentView{Id: "agent-2", Hostname: was.GetHostname(), Total: was.GetTotal()}}
		cluster.silent = true
		cluster.happen("admitted", &apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: "framework-2", Name: "g", State: "active", Admitted: timestamppb.Now()}}})
		<-time.After(time.Minute)

		cluster.told = false
		late := web.New(web.Config{Cluster: cluster})
		defer late.End()
		shown(late, "/")
		for at, views := range saved {
			for path, was := range views {
				path += fmt.Sprint("?at=", at)
				if now := shown(late, path); now != was {
					t.Errorf("%s was\n%s\nand is pieced together as\n%s", path, was, now)
				}
			}
			said := ask(late.Handler(), http.MethodGet, fmt.Sprint("/tasks?at=", at)).Body.String()
			if !strings.Contains(said, "pieced together from the events that master m2 has kept") {
				t.Errorf("nothing says that it is pieced together: %s", said)
			}
		}
	})
}

// said has somebody cause something of which there is no list, or whose list is another one.
func (h *historian) said(kind, name, what, why, by string, about ...string) {
	h.events = append(h.events, &apiv1.Event{At: timestamppb.Now(), Kind: kind, Name: name, What: what, Why: why, By: by, About: about, Notable: kind != "offer"})
	<-time.After(10 * time.Second)
}

// last returns what was said last.
func (h *historian) last() *apiv1.Event { return h.events[len(h.events)-1] }

// TestThePastOfWhatNoListHas: jobs, elections, rights, the settings of roles, offers and use of a moment are told from what
// the history and the accounting say, also by a page that was not there.
func TestThePastOfWhatNoListHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newHistorian()
		cluster.agent(1, "admitted")
		cluster.happen("admitted", &apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: "framework-1", Name: "f", State: "active", Admitted: timestamppb.Now()}}})
		grant := func(verb string) *apiv1.PrincipalGrant { return &apiv1.PrincipalGrant{Verb: verb, Role: "eng"} }
		created := timestamppb.Now()
		cluster.said("election", "1", "won", "master m1 leads from now on", "leader m1")
		cluster.said("role", "eng", "set", "as it was wanted", "person ann")
		cluster.last().Set = &apiv1.Event_Role{Role: &apiv1.RoleView{Role: "eng", Weight: 2.5, Priority: 3, Guarantee: amounts(2, 64)}}
		cluster.said("job", "site", "submitted", "submitted", "framework framework-1", "role/eng", "owner/ann", "framework/framework-1")
		cluster.said("offer", "offer-1", "made", "", "leader m1", "framework/framework-1", "agent/agent-1", "role/eng")
		then := time.Now().Unix()
		<-time.After(10 * time.Second)
		cluster.said("offer", "offer-1", "declined", "", "framework framework-1", "framework/framework-1", "agent/agent-1", "role/eng")
		cluster.said("offer", "offer-2", "made", "", "leader m1", "framework/framework-1", "agent/agent-1", "role/eng")
		cluster.said("job", "site", "stopped", "somebody asked for it", "framework framework-1", "role/eng", "owner/ann", "framework/framework-1")
		cluster.said("job", "late", "submitted", "submitted", "framework framework-1", "role/eng", "owner/ann", "framework/framework-1")
		cluster.said("role", "eng", "set", "anew", "person ann")
		cluster.last().Set = &apiv1.Event_Role{Role: &apiv1.RoleView{Role: "eng", Weight: 1, Limit: amounts(1, 0)}}
		cluster.said("election", "2", "won", "master m2 leads from now on", "leader m2")
		cluster.said("master", "m3", "removed", "", "person ann")
		cluster.said("principal", "eve", "granted", "given", "person ann")
		cluster.last().Set = &apiv1.Event_Grant{Grant: grant("operate")}
		cluster.said("principal", "eve", "taken", "not needed", "person ann")
		cluster.last().Set = &apiv1.Event_Grant{Grant: grant("run")}
		cluster.said("principal", "bob", "revoked", "it leaked", "person ann")
		cluster.said("principal", "new", "granted", "given", "person ann")
		cluster.last().Set = &apiv1.Event_Grant{Grant: &apiv1.PrincipalGrant{Verb: "view"}}
		for _, master := range []*apiv1.MasterView{{Id: "m1", State: "follower"}, {Id: "m2", State: "leader"}} {
			cluster.happen("", &apiv1.Change{View: &apiv1.Change_Master{Master: master}})
		}
		cluster.happen("", &apiv1.Change{View: &apiv1.Change_Role{Role: &apiv1.RoleView{Role: "eng", Weight: 1, Limit: amounts(1, 0)}}})
		for _, one := range []*apiv1.PrincipalView{{Name: "eve", Created: created, Grants: []*apiv1.PrincipalGrant{grant("view"), grant("operate")}}, {Name: "new", Created: timestamppb.Now()}} {
			cluster.happen("", &apiv1.Change{View: &apiv1.Change_Principal{Principal: one}})
		}
		cluster.answers["ListPrincipals"] = func() (proto.Message, error) {
			return &apiv1.ListPrincipalsResponse{Items: []*apiv1.PrincipalView{{Name: "bob", Created: created, Revoked: timestamppb.Now(), Grants: []*apiv1.PrincipalGrant{grant("kill-task")}}}}, nil
		}
		cluster.answers["ListJobs"] = func() (proto.Message, error) { return &apiv1.ListJobsResponse{}, nil }
		cluster.answers["ListUsage"] = func() (proto.Message, error) {
			return &apiv1.ListUsageResponse{Items: []*apiv1.UsageView{{Begin: timestamppb.New(time.Unix(then-3540, 0)), End: timestamppb.New(time.Unix(then+60, 0)), Role: "eng", Allocated: map[string]float64{"cpus": 3600 * 2}, Used: map[string]float64{"cpus": 3600 * 4}}}}, nil
		}
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		for path, want := range map[string]struct{ has, lacks []string }{
			"/":                {[]string{"50 % really used, on average of the hour"}, nil},
			"/jobs":            {[]string{`data-row="site"`, ">RUNNING<", "eng", "ann"}, []string{"late"}},
			"/jobs/site":       {[]string{"RUNNING", "submitted"}, []string{"STOPPED", "somebody asked"}},
			"/masters":         {[]string{`data-label="Was"><span class="good">leader`, `data-row="m3"`, "m1 leads from now on"}, []string{"m2 leads"}},
			"/roles":           {[]string{">2.5<", ">3<", "cpus 2, mem 64 MB"}, nil},
			"/offers":          {[]string{`data-row="offer-1"`, "node-1", "Nobody has written down what was in an offer"}, []string{"offer-2"}},
			"/access":          {[]string{"view --role eng; run --role eng", "kill-task --role eng"}, []string{"operate", `data-row="new"`}},
			"/shares?back=day": {[]string{"hour by hour, by the accounting", `class="chart"`, "eng <b>2</b>"}, nil},
			"/why?q=site":      {[]string{"How it had come to be so", "submitted"}, []string{"somebody asked"}},
		} {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			body := ask(page.Handler(), http.MethodGet, path+join+fmt.Sprint("at=", then)).Body.String()
			for _, text := range want.has {
				if !strings.Contains(body, text) {
					t.Errorf("%s does not say %q: %s", path, text, body)
				}
			}
			for _, text := range want.lacks {
				if strings.Contains(body, text) {
					t.Errorf("%s says %q: %s", path, text, body)
				}
			}
		}
	})
}

// TestWhatIsIllIsSeen: an agent that can start nothing is marked in the picture and listed, with its state RUNNING.
func TestWhatIsIllIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newHistorian()
		cluster.happen("", &apiv1.Change{View: &apiv1.Change_Agent{Agent: &apiv1.AgentView{Id: "agent-1", State: "RUNNING", Total: amounts(8, 1024), Ill: []string{"unable"}}}})
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		for path, want := range map[string]string{"/": `<rect class="ill"`, "/agents": `<span class="bad">ill: unable</span>`} {
			if body := ask(page.Handler(), http.MethodGet, path).Body.String(); !strings.Contains(body, want) {
				t.Errorf("%s does not say %s: %s", path, want, body)
			}
		}
	})
}
