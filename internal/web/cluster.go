package web

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// head returns what stands above every view.
func (s *Server) head(ctx context.Context, shown page) head {
	h := head{viewer: viewerOf(ctx)}
	if shown.code != 0 {
		h.why = shown.why
		return h
	}
	one, err := look(ctx)
	h.then = one.then
	if h.agents, h.tasks = countText(len(one.agents), "agent"), countText(one.sums.tasks, "task"); !h.then.IsZero() {
		return h
	}
	m, is := ctx.Value(mirrorKey{}).(*mirror)
	if !is {
		m = new(mirror)
	}
	cluster, failed := s.outlined(ctx, m)
	switch {
	case failed != nil:
		h.why = sentenceOf(failed) + m.toldUntil()
	case cluster.GetLeaderId() == "":
		h.why = "nobody leads" + m.toldUntil()
	default:
		h.leader = fmt.Sprintf("%s leads, term %d", cluster.GetLeaderId(), cluster.GetTerm().GetNumber())
	}
	h.cluster = cluster.GetClusterId()
	if err != nil {
		h.why = sentenceOf(err)
	} else if !one.whole {
		h.why = cmp.Or(h.why, "the state is being read: this is what has come so far")
	}
	if n := unreported(one.agents); n > 0 {
		h.missing = countText(n, "agent") + " yet to report: what only they know is missing"
	}
	return h
}

// unreported counts the agents whose tasks the leader does not know yet (R75). For those that are taken for dead nobody
// waits.
func unreported(agents []*apiv1.AgentView) (n int) {
	for _, agent := range agents {
		if agent.GetTasksMaybeMore() && agent.GetState() != api.AgentTombstone.String() {
			n++
		}
	}
	return n
}

// toldUntil says how old what is shown is, for a time in which nobody tells more.
func (m *mirror) toldUntil() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told.IsZero() {
		return ""
	}
	return "; what is shown was told until " + momentText(m.told)
}

// outlined returns the cluster as a whole. It is asked when the watch has told something of masters, and from time to
// time, because the watch is silent while nobody leads; not at each patch of each tab.
func (s *Server) outlined(ctx context.Context, m *mirror) (*apiv1.ClusterView, error) {
	now := s.config.Clock()
	m.mu.Lock()
	known, leads := m.outline, m.leads
	m.mu.Unlock()
	if !known.asked.IsZero() && known.leads == leads && now.Sub(known.asked) < lookEvery {
		return known.cluster, known.err
	}
	asking, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	known = outline{asked: now, leads: leads}
	known.cluster, known.err = s.operator.GetCluster(asking, &apiv1.GetClusterRequest{})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outline = known
	return known.cluster, known.err
}

// countText says how many there are of something.
func countText(n int, noun string) string {
	return strings.Replace(words.Count(n, noun), fmt.Sprint(n), grouped(n), 1)
}

// cluster is the first view: what there is at one look.
func (s *Server) cluster(r *http.Request) (page, error) {
	one, err := look(r.Context())
	if err != nil { // whoever has just logged in is told here what they may not, and is in all the same
		return page{title: "Cluster", nav: "/", blocks: failed(err).blocks}, nil
	}
	many := len(one.agents) > tilesMax
	return page{
		title: "Cluster", nav: "/", command: "tender get agents",
		blocks: []block{
			{key: "figures", title: "At one look", body: figures(figuresOf(one)), wide: true},
			{
				key: "picture", title: "Agents", note: noteOf(r.URL.Query()), wide: true, slow: many, command: "tender get agents", late: lateOf(r.URL, many),
				body: templ.ComponentFunc(func(ctx context.Context, w io.Writer) error { // drawn only when it is sent
					return pictureView(pictureOf(r.URL.Query(), one)).Render(ctx, w)
				}),
			},
			{key: "waiting", title: "What waits", command: "tender get frameworks", body: tableView(waiting(one))},
			{key: "trouble", title: "What is not well", command: "tender get agents", body: tableView(trouble(one))},
			{
				key: "failed", title: "What has failed lately", wide: true, links: []link{{"all events", "/history"}}, command: "tender events", late: lateOf(r.URL, !one.whole),
				body: templ.ComponentFunc(func(ctx context.Context, w io.Writer) error { // asked for only when it is sent
					failures, err := s.failedLately(r.Context(), one.then)
					none := "No task has failed for a day."
					if err != nil {
						none = "It can't be said: " + sentenceOf(err)
					}
					return tableView(eventsView(failures, none)).Render(ctx, w)
				}),
			},
		},
	}, nil
}

// figuresOf returns the numbers of the first view.
func figuresOf(one *copied) []figure {
	shown := make([]figure, 0, 5)
	for _, kind := range []struct{ name, called string }{{"cpus", "cpus"}, {"mem", "memory"}} {
		total, allocated, used := one.sums.total.of(kind.name), one.sums.allocated.of(kind.name), 0.0
		for _, usage := range one.used { // order: irrelevant because they are added
			used += usedOf(usage, kind.name)
		}
		really := " really used"
		if one.pieced != nil {
			used, really = one.mean.of(kind.name), " really used, on average of the hour"
		}
		f := figure{
			name: kind.called, value: amountText(kind.name, allocated), of: "of " + amountText(kind.name, total), href: "/agents",
			note: percent(allocated, total) + " allocated, " + percent(used, total) + really,
		}
		if total > 0 {
			f.parts = []part{{"allocated", 0, min(1, allocated/total)}, {"really", 0, min(1, used/total)}}
		}
		shown = append(shown, f)
	}
	wanted, by, active := 0, 0, 0
	for _, framework := range one.frameworks {
		if n := wants(framework); n > 0 {
			wanted, by = wanted+n, by+1
		}
		if framework.GetState() == "active" {
			active++
		}
	}
	return append(shown,
		figure{name: "tasks", value: grouped(one.sums.tasks), note: statesText(one.sums), href: "/tasks"},
		figure{name: "waiting", value: grouped(wanted), of: "tasks", note: "wanted by " + words.Count(by, "framework"), href: "/frameworks"},
		figure{name: "frameworks", value: grouped(len(one.frameworks)), note: grouped(active) + " connected", href: "/frameworks"},
	)
}

// statesText says in which states tasks are. Those that have ended are there until their frameworks have acknowledged it.
func statesText(all sums) string {
	if all.tasks == 0 {
		return "none has an agent"
	}
	if all.states[api.TaskRunning.String()] == all.tasks {
		return "all of them RUNNING"
	}
	said, ended := []string{grouped(all.states[api.TaskRunning.String()]) + " RUNNING"}, 0
	for _, name := range slices.Sorted(maps.Keys(all.states)) {
		if state, _ := api.ParseTaskState(name); state.Terminal() {
			ended += all.states[name]
		} else if state != api.TaskRunning {
			said = append(said, grouped(all.states[name])+" "+name)
		}
	}
	if ended > 0 {
		said = append(said, grouped(ended)+" ended and not yet acknowledged")
	}
	return strings.Join(said, ", ")
}

// wants returns how many tasks a framework says that it still wants.
func wants(framework *apiv1.FrameworkView) (sum int) {
	for _, demand := range framework.GetDemand() {
		sum += int(demand.GetCount())
	}
	return sum
}

// waiting lists what frameworks want and have not got.
func waiting(one *copied) table {
	shown := table{
		columns: []string{"Framework", "Wants", "Role", "Why"},
		empty:   "Nobody waits: no framework says that it wants more than it has.", next: "tender run --name hello -- echo hello",
	}
	for _, framework := range one.frameworks {
		for i, demand := range framework.GetDemand() {
			shown.rows = append(shown.rows, row{fmt.Sprint(framework.GetId(), "/", i), []cell{
				to(cmp.Or(framework.GetName(), framework.GetId()), frameworkPath(framework.GetId())),
				text(words.Count(int(demand.GetCount()), "task") + " of " + resourcesText(demand.GetResources())), text(demand.GetRole()),
				to("ask why", "/why?q="+url.QueryEscape(framework.GetId())),
			}})
		}
	}
	return capped(shown, link{"all frameworks", "/frameworks"})
}

// trouble lists agents and frameworks that are not as they should be.
func trouble(one *copied) table {
	shown := table{columns: []string{"What", "Is", "Since", "Why"}, empty: "Everything is well."}
	for _, agent := range one.agents {
		if how, class := condition(agent); class != "good" {
			shown.rows = append(shown.rows, row{"agent/" + agent.GetId(), []cell{
				to(agent.GetId(), agentPath(agent.GetId())), {text: how, class: class}, since(timeOf(agent.GetSince())), text(agent.GetWhy()),
			}})
		}
	}
	for _, framework := range one.frameworks {
		if _, detached := framework.GetLabels()[api.DetachedLabel]; framework.GetState() != "active" && !detached {
			shown.rows = append(shown.rows, row{"framework/" + framework.GetId(), []cell{
				to(cmp.Or(framework.GetName(), framework.GetId()), frameworkPath(framework.GetId())), {text: framework.GetState(), class: "warn"},
				since(timeOf(framework.GetSince())), text(framework.GetWhy()),
			}})
		}
	}
	return capped(shown, link{"all agents", "/agents"})
}

// shortMax is how many rows the tables of the first view have.
const shortMax = 12

func capped(shown table, more link) table {
	if len(shown.rows) > shortMax {
		shown.rows, shown.more = shown.rows[:shortMax], more
	}
	return shown
}

// condition says how an agent is, and how bad that is.
func condition(agent *apiv1.AgentView) (how, class string) {
	marks := agent.GetMarks()
	switch state := agent.GetState(); {
	case state == api.AgentTombstone.String():
		return "TOMBSTONE", "bad"
	case state == api.AgentDisconnected.String():
		return "DISCONNECTED", "bad"
	case len(agent.GetIll()) > 0:
		return "ill: " + strings.ReplaceAll(strings.Join(agent.GetIll(), ", "), "_", " "), "bad"
	case slices.Contains(marks, "drained"):
		return "drained", "warn"
	case len(marks) > 0:
		return strings.Join(marks, ", "), "warn"
	case agent.GetMaintenance() != nil:
		return "maintenance at " + timeOf(agent.GetMaintenance().GetStart()).UTC().Format("2006-01-02 15:04 MST"), "warn"
	default:
		return state, "good"
	}
}
