package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// windowRows is how many rows of a long list are shown at once; the next ones have an address of their own.
const windowRows = 100

// agents is the list of the agents.
func (s *Server) agents(r *http.Request) (page, error) {
	query := r.URL.Query()
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	prefix, states := query.Get("q"), query["state"]
	agents, shown := windowOf(r, only(one.agents, func(agent *apiv1.AgentView) bool {
		return (strings.HasPrefix(agent.GetId(), prefix) || strings.HasPrefix(agent.GetHostname(), prefix)) && (len(states) == 0 || slices.Contains(states, agent.GetState()))
	}))
	command := "tender get agents" + flags(query, "q", "", "state", "--state")
	shown.columns = []string{"Agent", "Host", "Is", "Since", "Tasks", "Allocated", "Free", "Really used", "Why"}
	shown.empty, shown.next = "There are no agents"+suchAs(query)+".", "tender agent --join FILE"
	for _, agent := range agents {
		how, class := condition(agent)
		shown.rows = append(shown.rows, row{agent.GetId(), []cell{
			to(agent.GetId(), agentPath(agent.GetId())), text(agent.GetHostname()), {text: how, class: class}, since(timeOf(agent.GetSince())),
			number(grouped(int(agent.GetTasks()))), text(resourcesText(agent.GetAllocated())), text(resourcesText(agent.GetFree())),
			text(usageText(one.used[agent.GetId()])), text(agent.GetWhy()),
		}})
	}
	return page{
		title: "Agents", nav: "/agents", command: command,
		blocks: []block{{key: "list", title: "Agents", wide: true, body: listView(shown, filter{"/agents", query.Get("q"), "Agents whose name begins with"})}},
	}, nil
}

// agentOf returns an agent by its ID or its hostname.
func (s *Server) agentOf(ctx context.Context, id string) (*apiv1.AgentView, error) {
	one, _ := look(ctx)
	agents := one.agents
	if one.then.IsZero() {
		found, err := s.operator.ListAgents(ctx, &apiv1.ListRequest{Prefix: id})
		if err != nil {
			return nil, err
		}
		agents = found.GetItems()
	}
	i := slices.IndexFunc(agents, func(one *apiv1.AgentView) bool {
		return one.GetId() == id || one.GetHostname() == id && !slices.Contains(one.GetMarks(), api.MarkGone.Strings()[0])
	})
	if i < 0 { // its host has not come back as another agent
		i = slices.IndexFunc(agents, func(one *apiv1.AgentView) bool { return one.GetHostname() == id })
	}
	if i < 0 {
		return nil, missing("agent", id)
	}
	return agents[i], nil
}

// agent is one agent, and what is on it.
func (s *Server) agent(r *http.Request) (page, error) {
	agent, err := s.agentOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	how, class := condition(agent)
	facts := []field{
		{"Is", cell{text: how, class: class}}, {"Why", text(agent.GetWhy())}, {"Since", since(timeOf(agent.GetSince()))}, {"Host", text(agent.GetHostname())},
		{"Address", text(agent.GetAddress())}, {"Zone", text(strings.Trim(agent.GetRegion()+" / "+agent.GetZone(), " /"))},
		{"Attributes", text(words.Pairs(agent.GetAttributes()))}, {"Total", text(resourcesText(agent.GetTotal()))},
		{"Allocated", text(resourcesText(agent.GetAllocated()))}, {"Offered", text(resourcesText(agent.GetOffered()))}, {"Free", text(resourcesText(agent.GetFree()))},
		{"Really used", text(usageText(agent.GetUsage()))}, {"Admitted", since(timeOf(agent.GetAdmitted()))}, {"Version", text(agent.GetVersion())},
		{"Revocable", text(resourcesText(agent.GetRevocable()))}, {"Volumes", text(strings.Join(slices.Sorted(maps.Keys(agent.GetVolumes())), ", "))},
		{"Orphaned", text(orphansText(agent.GetOrphaned()))}, {"Asked to leave", text(words.Pairs(agent.GetLeaving()))},
		{"Waits for", text(strings.Join(agent.GetUnacknowledged(), ", "))}, {"Set apart", text(strings.Join(agent.GetApart(), ", "))},
	}
	if window := agent.GetMaintenance(); window != nil {
		facts = append(facts, field{"Maintenance", since(timeOf(window.GetStart()))}, field{"It lasts", text(words.Span(window.GetDuration().AsDuration()))})
	}
	one, _ := look(r.Context())
	its, tasks := windowOf(r, only(one.tasks(), func(task *apiv1.TaskView) bool { return task.GetAgentId() == agent.GetId() }))
	tasks = tasks.withTasks(its, "Nothing runs on this agent.", "tender run -- sleep 60")
	return page{
		title: agent.GetId(), nav: "/agents", command: "tender describe agent " + words.Quote(agent.GetId()),
		blocks: []block{
			{key: "facts", title: "Agent " + agent.GetId(), body: fieldsView(facts), actions: []link{
				does("drain", "agent", agent.GetId()), does("deactivate", "agent", agent.GetId()), does("reactivate", "agent", agent.GetId()), does("maintenance", "agent", agent.GetId()),
			}},
			{key: "tasks", title: "Its tasks", wide: true, command: "tender get tasks --agent " + words.Quote(agent.GetId()), body: tableView(tasks)},
		},
	}, nil
}

// orphansText names the volumes that only the agent knows, and why they are there.
func orphansText(volumes []*apiv1.OrphanedVolume) string {
	said := make([]string, len(volumes))
	for i, o := range volumes {
		said[i] = fmt.Sprintf("%s of role %s, %d MB: %s", o.GetVolume(), o.GetRole(), o.GetSizeMb(), o.GetWhy())
	}
	return strings.Join(said, "; ")
}

func missing(noun, id string) error {
	return api.E("page", api.NotFound, id, fmt.Errorf("there is no %s %s; perhaps it was removed", noun, id))
}

func usageText(usage *apiv1.Usage) string {
	if usage == nil {
		return ""
	}
	return fmt.Sprintf("cpus %s, mem %s", short(usedOf(usage, "cpus")), amountText("mem", usedOf(usage, "mem")))
}

// frameworks is the list of the frameworks.
func (s *Server) frameworks(r *http.Request) (page, error) {
	query := r.URL.Query()
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	prefix, role := query.Get("q"), query.Get("role")
	frameworks, shown := windowOf(r, only(one.frameworks, func(f *apiv1.FrameworkView) bool {
		return (strings.HasPrefix(f.GetId(), prefix) || f.GetName() == prefix) && (role == "" || slices.Contains(f.GetRoles(), role))
	}))
	shown.columns = []string{"Framework", "Name", "Is", "Roles", "Tasks", "Wants", "Offers", "Allocated", "Largest share", "Why"}
	shown.empty, shown.next = "There are no frameworks"+suchAs(query)+".", "tender run --name hello -- echo hello"
	for _, framework := range frameworks {
		class := "good"
		if framework.GetState() != "active" {
			class = "warn"
		}
		shown.rows = append(shown.rows, row{framework.GetId(), []cell{
			to(framework.GetId(), frameworkPath(framework.GetId())), text(framework.GetName()), {text: framework.GetState(), class: class},
			text(strings.Join(framework.GetRoles(), " ")), number(grouped(int(framework.GetTasks()))), number(grouped(wants(framework))),
			number(grouped(int(framework.GetOffers()))), text(resourcesText(framework.GetAllocated())), number(percent(framework.GetDominantShare(), 1)), text(framework.GetWhy()),
		}})
	}
	return page{
		title: "Frameworks", nav: "/frameworks", command: "tender get frameworks" + flags(query, "q", "", "role", "--role"),
		blocks: []block{{key: "list", title: "Frameworks", wide: true, body: listView(shown, filter{"/frameworks", query.Get("q"), "Frameworks whose ID begins with, or whose name is"})}},
	}, nil
}

// framework is one framework, what it wants and what it runs.
func (s *Server) framework(r *http.Request) (page, error) {
	id := r.PathValue("id")
	one, _ := look(r.Context())
	frameworks := one.frameworks
	if one.then.IsZero() {
		found, err := s.operator.ListFrameworks(r.Context(), &apiv1.ListRequest{Prefix: id, All: true})
		if err != nil {
			return page{}, err
		}
		frameworks = found.GetItems()
	}
	i := slices.IndexFunc(frameworks, func(one *apiv1.FrameworkView) bool { return one.GetId() == id })
	if i < 0 {
		return page{}, missing("framework", id)
	}
	framework := frameworks[i]
	facts := []field{
		{"Name", text(framework.GetName())}, {"Is", text(framework.GetState())}, {"Why", text(framework.GetWhy())}, {"Since", since(timeOf(framework.GetSince()))},
		{"Principal", text(framework.GetPrincipal())}, {"Roles", text(strings.Join(framework.GetRoles(), " "))},
		{"Suppressed in", text(strings.Join(framework.GetSuppressed(), " "))}, {"Allocated", text(resourcesText(framework.GetAllocated()))},
		{"Offered", text(resourcesText(framework.GetOffered()))}, {"Largest share", text(percent(framework.GetDominantShare(), 1))},
		{"Constraint", text(framework.GetConstraint())}, {"Labels", text(words.Pairs(framework.GetLabels()))}, {"Endpoints", text(words.Pairs(framework.GetEndpoints()))},
		{"Kept when it is away", text(words.Span(framework.GetFailoverTimeout().AsDuration()))}, {"Admitted", since(timeOf(framework.GetAdmitted()))},
	}
	wanted := table{columns: []string{"Wants", "Each", "In role", "Where", "Spread over"}, empty: "It says of nothing that it wants more."}
	for i, demand := range framework.GetDemand() {
		var spread []string
		for _, over := range demand.GetSpread() {
			spread = append(spread, over.GetBy())
		}
		wanted.rows = append(wanted.rows, row{fmt.Sprint(i), []cell{
			text(words.Count(int(demand.GetCount()), "task")), text(resourcesText(demand.GetResources())), text(demand.GetRole()),
			text(strings.Join(append(slices.Clone(demand.GetPreferred()), demand.GetConstraint()), " ")), text(strings.Join(spread, ", ")),
		}})
	}
	its, tasks := windowOf(r, only(one.tasks(), func(task *apiv1.TaskView) bool { return task.GetFrameworkId() == id }))
	tasks = tasks.withTasks(its, "It runs nothing now.", "tender explain "+words.Quote(id))
	return page{
		title: cmp.Or(framework.GetName(), id), nav: "/frameworks", command: "tender describe framework " + words.Quote(id),
		blocks: []block{
			{key: "facts", title: "Framework " + id, body: fieldsView(facts), actions: []link{
				{"Why is it not running?", "/why?q=" + url.QueryEscape(id)}, does("teardown", "framework", id),
			}},
			{key: "wanted", title: "What it wants", command: "tender explain " + words.Quote(id), body: tableView(wanted)},
			{key: "tasks", title: "Its tasks", wide: true, command: "tender get tasks --framework " + words.Quote(id), body: tableView(tasks)},
		},
	}, nil
}

// tasks is the list of the tasks.
func (s *Server) tasks(r *http.Request) (page, error) {
	query := r.URL.Query()
	empty, next := "There are no tasks"+suchAs(query)+".", "tender run --name hello -- sleep 60"
	var shown table
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	past := !one.then.IsZero()
	all := query.Get("all") != "" && !past
	if all { // the watch forgets what has ended
		list, err := s.operator.ListTasks(r.Context(), &apiv1.ListTasksRequest{
			Limit: windowRows, PageToken: query.Get("page"), Prefix: query.Get("q"), FrameworkId: query.Get("framework"), AgentId: query.Get("agent"),
			Role: query.Get("role"), States: query["state"], All: true,
		})
		if err != nil {
			return page{}, err
		}
		shown = table{more: further(r, list.GetNextPageToken())}.withTasks(list.GetItems(), empty, next)
	} else {
		tasks, of := windowOf(r, only(one.tasks(), tasksSuchAs(query)))
		shown = of.withTasks(tasks, empty, next)
	}
	command := "tender get tasks" + flags(query, "q", "", "framework", "--framework", "agent", "--agent", "role", "--role", "state", "--state")
	other := link{"those that have ended too", "/tasks?all=1"}
	if past {
		other = link{"what had happened before", "/history?all=1"}
	} else if all {
		command, other = command+" --all", link{"only those that have not ended", "/tasks"}
	}
	return page{
		title: "Tasks", nav: "/tasks", command: command,
		blocks: []block{{
			key: "list", title: "Tasks", wide: true, links: []link{other},
			body: listView(shown, filter{"/tasks", query.Get("q"), "Tasks whose ID, as TASK or FRAMEWORK/TASK, begins with"}),
		}},
	}, nil
}

// tasksSuchAs says which tasks the query of an address selects; nil: all.
func tasksSuchAs(query url.Values) func(*apiv1.TaskView) bool {
	prefix, framework, agent, role, states := query.Get("q"), query.Get("framework"), query.Get("agent"), query.Get("role"), query["state"]
	if prefix+framework+agent+role == "" && len(states) == 0 {
		return nil
	}
	of, rest, whole := strings.Cut(prefix, "/")
	return func(task *apiv1.TaskView) bool {
		named := strings.HasPrefix(task.GetId(), prefix) || whole && task.GetFrameworkId() == of && strings.HasPrefix(task.GetId(), rest) ||
			!whole && strings.HasPrefix(task.GetFrameworkId(), prefix)
		return named && (framework == "" || task.GetFrameworkId() == framework) && (agent == "" || task.GetAgentId() == agent) && (role == "" || task.GetRole() == role) && (len(states) == 0 || slices.Contains(states, task.GetState()))
	}
}

// withTasks returns the table with tasks in it.
func (t table) withTasks(tasks []*apiv1.TaskView, empty, next string) table {
	t.columns, t.empty, t.next = []string{"Task", "Name", "Framework", "Role", "Is", "Since", "On", "Has", "Why"}, empty, next
	for _, task := range tasks {
		t.rows = append(t.rows, row{task.GetFrameworkId() + "/" + task.GetId(), []cell{
			to(task.GetId(), taskPath(task)), text(task.GetName()),
			to(cmp.Or(task.GetFrameworkName(), task.GetFrameworkId()), frameworkPath(task.GetFrameworkId())), text(task.GetRole()),
			{text: task.GetState(), class: gradeOf(task)}, since(timeOf(task.GetSince())), to(task.GetHostname(), agentPath(task.GetAgentId())),
			text(resourcesText(task.GetResources())), text(whyOf(task)),
		}})
	}
	return t
}

// only returns the items that are wanted; nil: all are.
func only[V any](items []V, wanted func(V) bool) []V {
	if wanted == nil {
		return items
	}
	kept := make([]V, 0, min(len(items), windowRows))
	for _, one := range items {
		if wanted(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// windowOf returns the part of a list that the address asks for, by from=101, and a table that says which part that is.
func windowOf[V any](r *http.Request, items []V) ([]V, table) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from")) // else from the beginning
	from = max(1, min(from, len(items)))
	to := min(len(items), from-1+windowRows)
	at := func(text string, from int) link {
		query := r.URL.Query()
		query.Set("from", strconv.Itoa(from))
		return link{text, r.URL.EscapedPath() + "?" + query.Encode()}
	}
	var shown table
	if from > 1 {
		shown.before = at("before", max(1, from-windowRows))
	}
	if to < len(items) {
		shown.more = at("more", to+1)
	}
	if from > 1 || to < len(items) {
		shown.place = fmt.Sprintf("%s to %s of %s", grouped(from), grouped(to), grouped(len(items)))
	}
	return items[from-1 : to], shown
}

func taskPath(task *apiv1.TaskView) string {
	return "/tasks/" + url.PathEscape(task.GetFrameworkId()) + "/" + url.PathEscape(task.GetId())
}

func frameworkPath(id string) string { return "/frameworks/" + url.PathEscape(id) }

func agentPath(id string) string {
	if id == "" {
		return ""
	}
	return "/agents/" + url.PathEscape(id)
}

// gradeOf says how good the state of a task is.
func gradeOf(task *apiv1.TaskView) string {
	state, err := api.ParseTaskState(task.GetState())
	switch {
	case err != nil:
		return ""
	case state == api.TaskFinished:
		return "soft"
	case state == api.TaskKilled || state == api.TaskKilling || state == api.TaskDropped:
		return "warn"
	case state.Terminal() || state == api.TaskUnreachable:
		return "bad"
	case task.Healthy != nil && !task.GetHealthy():
		return "bad"
	default:
		return "good"
	}
}

// whyOf says in a sentence what there is to say about the state of a task.
func whyOf(task *apiv1.TaskView) string {
	why := cmp.Or(task.GetMessage(), strings.ToLower(strings.ReplaceAll(task.GetReason(), "_", " ")))
	if why == "" && task.GetExitCode() != 0 {
		why = fmt.Sprintf("exited with %d", task.GetExitCode())
	}
	if task.Healthy != nil && !task.GetHealthy() {
		why = strings.TrimSuffix("it does not pass its checks; "+why, "; ")
	}
	return why
}

// further is the link to the rest of a list; no text: there is none.
func further(r *http.Request, token string) link {
	if token == "" {
		return link{}
	}
	query := r.URL.Query()
	query.Set("page", token)
	return link{"more", r.URL.EscapedPath() + "?" + query.Encode()}
}

// suchAs says by what a list was narrowed.
func suchAs(query url.Values) string {
	var parts []string
	for _, name := range []string{"q", "framework", "agent", "role", "state"} {
		for _, value := range query[name] {
			if value != "" && name == "q" {
				parts = append(parts, "called "+value)
			} else if value != "" {
				parts = append(parts, "of "+name+" "+value)
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, " and ")
}

// flags returns the part of a command line that narrows a list as the address does: names of values, each with its flag;
// "" stands for an argument.
func flags(query url.Values, names ...string) (line string) {
	for i := 0; i < len(names); i += 2 {
		for _, value := range query[names[i]] {
			if value != "" {
				line += strings.TrimSuffix(" "+names[i+1], " ") + " " + words.Quote(value)
			}
		}
	}
	return line
}
