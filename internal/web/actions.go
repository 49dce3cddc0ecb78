package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// action is a change that can be made on the page. Its own address asks first and says what it will hit; the form that
// stands there makes it.
type action struct {
	name   string
	title  string
	fields []input // what may be filled in, beside what the address names
	danger bool
	// hits says what the change will hit, and what a grant has to allow for it.
	hits func(ctx context.Context, s *Server, form url.Values) (lines []string, wish *apiv1.PrincipalGrant, err error)
	// command is the same on the command line.
	command func(form url.Values) string
	// fill fills the form in with what is so now; nil: nothing is.
	fill func(ctx context.Context, s *Server, form url.Values)
	// plan says what the form as it is filled in would change; nil: hits has said all.
	plan func(ctx context.Context, s *Server, form url.Values) ([]string, error)
	// do makes the change and says what has come of it.
	do func(ctx context.Context, s *Server, form url.Values) (string, error)
	// shows makes what is shown in place of what do says; nil: that is shown.
	shows func(said, back string) templ.Component
	// back is the address to which one goes afterwards.
	back func(form url.Values) string
}

// input is a field of a form.
type input struct{ name, label, hint, kind string }

// actions are all changes that the page has a form for; those of the table of rights that a cookie may make (R72).
var actions = slices.Concat(otherActions, jobActions, []action{execAction})

// otherActions are all but those of jobs.
var otherActions = []action{
	{
		name: "kill", title: "Kill the task", danger: true, hits: hitsTask,
		fields: []input{{"grace", "Time to end by itself", "its own; or such as 10s", ""}},
		command: func(form url.Values) string {
			return "tender kill " + words.Quote(form.Get("framework")+"/"+form.Get("task")) + flags(form, "grace", "--grace")
		},
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			grace, err := durationOf(form.Get("grace"))
			if err != nil {
				return "", err
			}
			answer, err := s.operator.KillTask(ctx, &apiv1.KillTaskRequest{Task: form.Get("framework") + "/" + form.Get("task"), Grace: grace})
			switch {
			case err != nil:
				return "", err
			case answer.GetAlready() != "":
				return "It had ended before: " + answer.GetAlready() + ".", nil
			case answer.GetPending():
				return "Its agent is away. It is killed when the agent is back.", nil
			}
			return "Its agent has the order to kill it.", nil
		},
		back: func(form url.Values) string {
			return "/tasks/" + url.PathEscape(form.Get("framework")) + "/" + url.PathEscape(form.Get("task"))
		},
	},
	mark("drain", "Drain the agent", apiv1.AgentAction_DRAIN, "Its tasks are killed, with their own time to end; it gets no new ones until it is reactivated.",
		input{"grace", "The most time for tasks to end", "their own; or such as 10m", ""}),
	mark("deactivate", "Deactivate the agent", apiv1.AgentAction_DEACTIVATE, "Its tasks go on; it gets no new ones until it is reactivated."),
	mark("reactivate", "Reactivate the agent", apiv1.AgentAction_REACTIVATE, "It is offered again."),
	{
		name: "maintenance", title: "Plan its maintenance", hits: hitsAgent(
			"Until the time comes, frameworks are asked to leave it; then it is drained, and offered again when the time is over.",
			"Without a time, what is planned is taken back."),
		fields: []input{{"in", "Begins in", "nothing: take it back; or such as 2h", ""}, {"for", "And lasts", "such as 1h", ""}},
		command: func(form url.Values) string {
			if form.Get("in") == "" {
				return "tender maintenance clear " + words.Quote(form.Get("agent"))
			}
			return "tender maintenance set " + words.Quote(form.Get("agent")) + flags(form, "in", "--start", "for", "--duration")
		},
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			window, err := s.windowOf(form)
			if err != nil {
				return "", err
			}
			answer, err := s.operator.SetMaintenance(ctx, &apiv1.SetMaintenanceRequest{AgentIds: []string{form.Get("agent")}, Window: window})
			return sentence(answer.GetMessage()), err
		},
		back: func(form url.Values) string { return agentPath(form.Get("agent")) },
	},
	{
		name: "role", title: "Set up the role",
		fields: []input{
			{"weight", "Weight", "such as 2; twice the share of a role of weight 1", ""}, {"priority", "Priority", "a whole number; only with the policy priority", ""},
			{"guarantee", "Guarantee", `such as "cpus:4;mem:4096", or none`, ""}, {"limit", "Limit", `such as "cpus:8", or none`, ""},
		},
		hits: func(_ context.Context, _ *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
			return []string{"The role " + form.Get("role") + " and all roles below it. What is left empty stays as it is."},
				&apiv1.PrincipalGrant{Verb: "set-role", Role: form.Get("role")}, nil
		},
		command: func(form url.Values) string {
			var lines []string
			for _, name := range []string{"weight", "priority"} {
				if form.Get(name) != "" {
					lines = append(lines, "tender "+name+" "+words.Quote(form.Get("role"))+" "+words.Quote(form.Get(name)))
				}
			}
			if quota := flags(form, "guarantee", "--guarantee", "limit", "--limit"); quota != "" || lines == nil {
				lines = append(lines, "tender quota "+words.Quote(form.Get("role"))+quota)
			}
			return strings.Join(lines, " && ")
		},
		do: setRole, back: func(url.Values) string { return "/roles" },
	},
	{
		name: "teardown", title: "Remove the framework", danger: true,
		hits: func(ctx context.Context, s *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
			found, err := s.operator.ListFrameworks(ctx, &apiv1.ListRequest{Prefix: form.Get("framework")})
			if err != nil {
				return nil, nil, err
			}
			for _, framework := range found.GetItems() {
				if framework.GetId() == form.Get("framework") {
					return []string{fmt.Sprintf("%s (%s) is removed for ever, with its %s.", framework.GetId(), framework.GetName(), words.Count(int(framework.GetTasks()), "task"))},
						&apiv1.PrincipalGrant{Verb: "remove-framework", Framework: framework.GetId()}, nil
				}
			}
			return nil, nil, missing("framework", form.Get("framework"))
		},
		command: func(form url.Values) string { return "tender teardown --force " + words.Quote(form.Get("framework")) },
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			answer, err := s.operator.RemoveFramework(ctx, &apiv1.RemoveFrameworkRequest{FrameworkId: form.Get("framework"), Force: true})
			return sentence(answer.GetMessage()), err
		},
		back: func(url.Values) string { return "/frameworks" },
	},
}

// mark is an action that marks an agent.
func mark(name, title string, does apiv1.AgentAction, what string, fields ...input) action {
	return action{
		name: name, title: title, danger: does == apiv1.AgentAction_DRAIN, fields: fields, hits: hitsAgent(what),
		command: func(form url.Values) string {
			return "tender " + name + " " + words.Quote(form.Get("agent")) + flags(form, "grace", "--grace")
		},
		do: func(ctx context.Context, s *Server, form url.Values) (string, error) {
			grace, err := durationOf(form.Get("grace"))
			if err != nil {
				return "", err
			}
			answer, err := s.operator.MarkAgent(ctx, &apiv1.MarkAgentRequest{AgentId: form.Get("agent"), Action: does, Grace: grace})
			return sentence(answer.GetMessage()), err
		},
		back: func(form url.Values) string { return agentPath(form.Get("agent")) },
	}
}

func hitsTask(ctx context.Context, s *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
	framework := form.Get("framework")
	task, err := s.taskOf(ctx, framework, form.Get("task"))
	if err != nil {
		return nil, nil, err
	}
	return []string{
		fmt.Sprintf("Task %s of %s, which is %s on %s.", task.GetId(), cmp.Or(task.GetFrameworkName(), framework), task.GetState(), cmp.Or(task.GetHostname(), "no agent")),
		"Its framework is told, and may start another one.",
	}, &apiv1.PrincipalGrant{Verb: "kill-task", Role: task.GetRole(), Framework: framework}, nil
}

func hitsAgent(lines ...string) func(context.Context, *Server, url.Values) ([]string, *apiv1.PrincipalGrant, error) {
	return func(ctx context.Context, s *Server, form url.Values) ([]string, *apiv1.PrincipalGrant, error) {
		agent, err := s.agentOf(ctx, form.Get("agent"))
		if err != nil {
			return nil, nil, err
		}
		how, _ := condition(agent)
		first := fmt.Sprintf("Agent %s on %s, which is %s and has %s.", agent.GetId(), agent.GetHostname(), how, words.Count(int(agent.GetTasks()), "task"))
		return append([]string{first}, lines...), &apiv1.PrincipalGrant{Verb: "mark-agent", Agent: agent.GetId()}, nil
	}
}

func setRole(ctx context.Context, s *Server, form url.Values) (string, error) {
	request := &apiv1.SetRoleRequest{Role: form.Get("role")}
	if text := form.Get("weight"); text != "" {
		weight, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", invalid("the weight %q is no number", text)
		}
		request.Weight = &weight
	}
	if text := form.Get("priority"); text != "" {
		priority, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return "", invalid("the priority %q is no whole number", text)
		}
		short := int32(priority)
		request.Priority = &short
	}
	for name, into := range map[string]**string{"guarantee": &request.Guarantee, "limit": &request.Limit} { // order: irrelevant because each is set once
		if text := form.Get(name); text != "" {
			*into = &text
		}
	}
	role, err := s.operator.SetRole(ctx, request)
	return fmt.Sprintf("Role %s has weight %s and priority %d; guaranteed is %s, the limit is %s.", role.GetRole(), short(role.GetWeight()), role.GetPriority(),
		cmp.Or(resourcesText(role.GetGuarantee()), "nothing"), cmp.Or(resourcesText(role.GetLimit()), "none")), err
}

// windowOf returns the window that a form describes; nil: none.
func (s *Server) windowOf(form url.Values) (*apiv1.Window, error) {
	begins, err := durationOf(form.Get("in"))
	if err != nil || begins == nil {
		return nil, err
	}
	lasts, err := durationOf(cmp.Or(form.Get("for"), "1h"))
	if err != nil {
		return nil, err
	}
	return &apiv1.Window{Start: timestamppb.New(s.config.Clock().Add(begins.AsDuration())), Duration: lasts}, nil
}

// durationOf reads a time span; nil: none is written.
func durationOf(text string) (*durationpb.Duration, error) {
	if text == "" {
		return nil, nil
	}
	span, err := time.ParseDuration(text)
	if err != nil || span < 0 {
		return nil, invalid("%q is no time; write one such as 10s, 5m or 2h", text)
	}
	return durationpb.New(span), nil
}

func invalid(format string, values ...any) error {
	return api.E("page", api.Invalid, "", fmt.Errorf(format, values...))
}

// sentence begins a text with a capital letter.
func sentence(text string) string {
	if text == "" {
		return "It is done."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// ask is the view that asks before something is done.
func (a action) ask(s *Server) view {
	return func(r *http.Request) (page, error) {
		form := r.URL.Query()
		lines, wish, err := a.hits(r.Context(), s, form)
		if err != nil {
			return page{}, err
		}
		q := question{action: a, form: form, lines: lines, planned: a.plan == nil}
		if may, err := s.operator.CanI(r.Context(), &apiv1.CanIRequest{Wish: wish}); err == nil && !may.GetAllowed() {
			q.refused = may.GetWhy()
		}
		if a.fill != nil {
			a.fill(r.Context(), s, form)
		}
		return q.page(), nil
	}
}

// question is an action that is asked about.
type question struct {
	action  action
	form    url.Values
	lines   []string
	planned bool   // the lines say what the form as it is filled in would change
	refused string // why this person may not do it
}

func (q question) page() page {
	return page{
		title: q.action.title, still: true,
		blocks: []block{{key: "ask", title: q.action.title + "?", body: askView(q), command: q.action.command(q.form), wide: true}},
	}
}

// formBytesMax bounds how many bytes of a form are read.
const formBytesMax = 256 << 10

// act does what a form says, and shows what has come of it; or what would, if the form asks for its plan.
func (s *Server) act(a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
		shown, err := page{}, r.ParseForm()
		form := r.PostForm
		switch {
		case err != nil:
			err = api.E("page", api.Invalid, "", errors.New("this form can't be read, or is far too long"))
		case a.plan != nil && form.Has("plan"):
			form.Del("plan")
			q := question{action: a, form: form, planned: true}
			if q.lines, err = a.plan(r.Context(), s, form); err == nil {
				shown = q.page()
			}
		default:
			var said string
			if said, err = a.do(r.Context(), s, form); err == nil {
				done := block{key: "done", title: "Done", body: doneView(said, a.back(form)), command: a.command(form), wide: true}
				if a.shows != nil {
					done.title, done.body = a.title, a.shows(said, a.back(form))
				}
				shown.blocks = []block{done}
			}
		}
		if err != nil {
			shown = failed(err)
			shown.blocks[0].title, shown.blocks[0].command = "It was not done", a.command(form)
		}
		shown.title, shown.still = a.title, true
		ctx := r.Context()
		if looking, m, leave, err := s.mirrored(ctx); err == nil {
			defer leave()
			m.await(looking, false)
			ctx = looking
		}
		shown.head = s.head(ctx, shown)
		Show(w, r, max(shown.code, http.StatusOK), layout(shown, r.URL))
	}
}
