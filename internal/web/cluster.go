package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// head returns what stands above every view.
func (s *Server) head(ctx context.Context, shown page) head {
	h := head{viewer: viewerOf(ctx), now: s.config.Clock()}
	if shown.code != 0 {
		return h
	}
	one, err := s.copy(ctx)
	if err != nil {
		h.why = sentenceOf(err)
		return h
	}
	h.cluster = one.cluster.GetClusterId()
	if leader := one.cluster.GetLeaderId(); leader != "" {
		h.leader = fmt.Sprintf("%s leads, term %d", leader, one.cluster.GetTerm().GetNumber())
	} else {
		h.why = "nobody leads"
	}
	h.agents, h.tasks = one.agents.count("agent"), one.tasks.count("task")
	return h
}

// count says how many items there are; "" if that may not be seen.
func (l list[V]) count(noun string) string {
	switch {
	case l.err != nil:
		return ""
	case l.more:
		return "more than " + words.Count(len(l.items), noun)
	}
	return strings.Replace(words.Count(len(l.items), noun), fmt.Sprint(len(l.items)), grouped(len(l.items)), 1)
}

// cluster is the first view: what there is at one look.
func (s *Server) cluster(r *http.Request) (page, error) {
	one, err := s.copy(r.Context())
	if err != nil {
		return page{}, err
	}
	how := pictureOf(r.URL.Query(), one)
	return page{
		title: "Cluster", nav: "/", command: "tender get agents",
		blocks: []block{
			{key: "figures", title: "At one look", body: figures(s.figures(one)), wide: true},
			{
				key: "picture", title: "Agents", note: how.note(), wide: true, command: "tender get agents",
				body: pictureView(how),
			},
			{key: "waiting", title: "What waits", note: "and where to ask why", command: "tender get frameworks", body: tableView(waiting(one))},
			{key: "trouble", title: "What is not well", command: "tender get agents", body: tableView(trouble(one))},
		},
	}, nil
}

// figures are the numbers of the first view.
func (s *Server) figures(one *copied) []figure {
	shown := make([]figure, 0, 5)
	for _, kind := range []struct{ name, called string }{{"cpus", "cpus"}, {"mem", "memory"}} {
		var total, allocated, used float64
		for _, agent := range one.agents.items {
			total += amountOf(agent.GetTotal(), kind.name)
			allocated += amountOf(agent.GetAllocated(), kind.name)
			used += usedOf(agent.GetUsage(), kind.name)
		}
		f := figure{
			name: kind.called, value: amountText(kind.name, allocated), of: "of " + amountText(kind.name, total), href: "/agents",
			note: percent(allocated, total) + " allocated, " + percent(used, total) + " really used",
		}
		if total > 0 {
			f.parts = []part{{"allocated", 0, min(1, allocated/total)}, {"really", 0, min(1, used/total)}}
		}
		shown = append(shown, f)
	}
	states := map[string]int{}
	for _, task := range one.tasks.items {
		states[task.GetState()]++
	}
	running := states[api.TaskRunning.String()]
	on := "all of them RUNNING"
	if others := len(one.tasks.items) - running; others > 0 {
		on = grouped(running) + " RUNNING, " + grouped(others) + " on their way or ending"
	}
	if len(one.tasks.items) == 0 {
		on = "none has an agent"
	}
	wanted, by := 0, 0
	for _, framework := range one.frameworks.items {
		if n := wants(framework); n > 0 {
			wanted, by = wanted+n, by+1
		}
	}
	active := 0
	for _, framework := range one.frameworks.items {
		if framework.GetState() == "active" {
			active++
		}
	}
	return append(shown,
		figure{name: "tasks", value: grouped(len(one.tasks.items)), note: on, href: "/tasks"},
		figure{name: "waiting", value: grouped(wanted), of: "tasks", note: "wanted by " + words.Count(by, "framework"), href: "/frameworks"},
		figure{name: "frameworks", value: grouped(len(one.frameworks.items)), note: grouped(active) + " connected", href: "/frameworks"},
	)
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
		columns: []string{"Framework", "Wants", "Of which each needs", "Role"},
		empty:   "Nobody waits: no framework says that it wants more than it has.", next: "tender run --name hello -- echo hello",
	}
	if one.frameworks.err != nil {
		shown.empty, shown.next = sentenceOf(one.frameworks.err), ""
	}
	for _, framework := range one.frameworks.items {
		for i, demand := range framework.GetDemand() {
			shown.rows = append(shown.rows, row{fmt.Sprint(framework.GetId(), "/", i), []cell{
				to(cmp.Or(framework.GetName(), framework.GetId()), frameworkPath(framework.GetId())),
				text(words.Count(int(demand.GetCount()), "task")), text(resourcesText(demand.GetResources())), text(demand.GetRole()),
			}})
		}
	}
	return capped(shown, link{"all frameworks", "/frameworks"})
}

// trouble lists agents and frameworks that are not as they should be.
func trouble(one *copied) table {
	shown := table{columns: []string{"What", "Is", "Since", "Why"}, empty: "Everything is well."}
	for _, agent := range one.agents.items {
		if how, class := condition(agent); class != "good" {
			shown.rows = append(shown.rows, row{"agent/" + agent.GetId(), []cell{
				to(agent.GetId(), agentPath(agent.GetId())), {text: how, class: class}, since(timeOf(agent.GetSince())), text(agent.GetWhy()),
			}})
		}
	}
	for _, framework := range one.frameworks.items {
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
	case ill(agent):
		return "ill: " + strings.Join(marks, ", "), "bad"
	case len(marks) > 0:
		return strings.Join(marks, ", "), "warn"
	case agent.GetMaintenance() != nil:
		return "maintenance at " + timeOf(agent.GetMaintenance().GetStart()).UTC().Format("2006-01-02 15:04 MST"), "warn"
	default:
		return state, "good"
	}
}

// ill says whether an agent can start nothing, such as on a full disk.
func ill(agent *apiv1.AgentView) bool {
	return slices.ContainsFunc(agent.GetMarks(), func(mark string) bool { return strings.Contains(mark, "disk") || strings.Contains(mark, "ill") })
}

// picture is all agents as tiles, each filled with what holds it.
type picture struct {
	by, fill, size string
	groupings      []string // what one may group by
	groups         []group
	legend         []swatch
	more           bool
	many           bool // too many to go through them by keyboard; the list of agents is there for that
	err            error
}

// swatch explains a colour.
type swatch struct{ class, name, amount string }

// group is the agents that have the same place.
type group struct {
	name    string
	tiles   []tile
	columns int
}

// tile is an agent: where it stands in its group, how large it is, and by what it is filled, in units of the picture.
type tile struct {
	id, href, title, class string
	x, y, side             float64
	parts                  []part // from the bottom up, as shares of the side
	used                   float64
}

// step is the distance of two tiles.
const step = 20

// tilesNamedMax is how many tiles one can go through by keyboard.
const tilesNamedMax = 200

// pictureOf draws the agents as the query of the address says: by=zone&fill=role&size=cpus.
func pictureOf(query url.Values, one *copied) picture {
	p := picture{by: query.Get("by"), fill: cmp.Or(query.Get("fill"), "role"), size: cmp.Or(query.Get("size"), "cpus"), more: one.agents.more, err: one.agents.err}
	attributes := map[string]bool{}
	zones := false
	for _, agent := range one.agents.items {
		zones = zones || agent.GetZone() != ""
		for name := range agent.GetAttributes() { // order: irrelevant because they are sorted below
			attributes[name] = true
		}
	}
	p.groupings = append([]string{"zone", "region", "state"}, slices.Sorted(maps.Keys(attributes))...)
	if p.by == "" && !zones && attributes["rack"] {
		p.by = "rack"
	}
	p.by = cmp.Or(p.by, "zone")
	holders, amounts := p.holders(one)
	most := 0.0
	for _, agent := range one.agents.items {
		most = max(most, amountOf(agent.GetTotal(), p.size))
	}
	placed := map[string][]*apiv1.AgentView{}
	for _, agent := range one.agents.items {
		name := p.placeOf(agent)
		placed[name] = append(placed[name], agent)
	}
	p.many = len(one.agents.items) > tilesNamedMax
	for _, name := range slices.SortedFunc(maps.Keys(placed), words.CompareNatural) {
		agents := placed[name]
		slices.SortFunc(agents, func(a, b *apiv1.AgentView) int { return words.CompareNatural(a.GetId(), b.GetId()) })
		g := group{name: name, columns: columnsFor(len(agents))}
		for i, agent := range agents {
			t := p.tileOf(agent, holders[agent.GetId()], amounts, most)
			t.x, t.y = float64(i%g.columns)*step, float64(i/g.columns)*step
			g.tiles = append(g.tiles, t)
		}
		p.groups = append(p.groups, g)
	}
	p.legend = amounts.legend(p.size)
	return p
}

// columnsFor returns how many tiles stand beside each other.
func columnsFor(n int) int {
	columns := 5
	for columns*columns < n {
		columns++
	}
	return columns
}

func (p picture) note() string {
	text := "each square an agent, as large as its " + p.size + ", filled by " + p.fill + "; the line is what is really used"
	if p.more {
		text += fmt.Sprintf("; these are the first %s", grouped(copyItemsMax))
	}
	return text
}

// placeOf returns the name of the group of an agent.
func (p picture) placeOf(agent *apiv1.AgentView) string {
	switch p.by {
	case "zone":
		return cmp.Or(agent.GetZone(), "no zone")
	case "region":
		return cmp.Or(agent.GetRegion(), "no region")
	case "state":
		how, _ := condition(agent)
		return how
	default:
		return cmp.Or(agent.GetAttributes()[p.by], "no "+p.by)
	}
}

// colours gives each holder a colour: the same one as long as the same holders are there.
type colours struct {
	sums map[string]float64
	of   map[string]string
}

// coloursMax is how many colours there are; holders beyond them share the last.
const coloursMax = 8

// holders returns how much of the drawn kind each holder has on each agent, and the colours of all holders.
func (p picture) holders(one *copied) (map[string]map[string]float64, colours) {
	by, all := map[string]map[string]float64{}, colours{map[string]float64{}, map[string]string{}}
	for _, task := range one.tasks.items {
		name := task.GetRole()
		if p.fill == "framework" {
			name = cmp.Or(task.GetFrameworkName(), task.GetFrameworkId())
		}
		amount := amountOf(task.GetResources(), p.size)
		if by[task.GetAgentId()] == nil {
			by[task.GetAgentId()] = map[string]float64{}
		}
		by[task.GetAgentId()][name] += amount
		all.sums[name] += amount
	}
	for i, name := range slices.Sorted(maps.Keys(all.sums)) {
		all.of[name] = fmt.Sprint("c", min(i, coloursMax-1)+1)
	}
	return by, all
}

func (c colours) legend(kind string) []swatch {
	names := slices.SortedFunc(maps.Keys(c.sums), func(a, b string) int { return cmp.Or(cmp.Compare(c.sums[b], c.sums[a]), cmp.Compare(a, b)) })
	var shown []swatch
	for _, name := range names[:min(len(names), coloursMax)] {
		shown = append(shown, swatch{c.of[name], name, amountText(kind, c.sums[name])})
	}
	return shown
}

// tileOf draws one agent.
func (p picture) tileOf(agent *apiv1.AgentView, holds map[string]float64, all colours, most float64) tile {
	total := amountOf(agent.GetTotal(), p.size)
	t := tile{id: agent.GetId(), href: agentPath(agent.GetId()), side: step - 2}
	if most > 0 {
		t.side = max(step*0.3, (step-2)*math.Sqrt(total/most))
	}
	how, class := condition(agent)
	switch {
	case class == "bad" && ill(agent):
		t.class = "ill"
	case class == "bad":
		t.class = "silent"
	case class == "warn":
		t.class = "drain"
	}
	allocated, used := amountOf(agent.GetAllocated(), p.size), usedOf(agent.GetUsage(), p.size)
	t.title = fmt.Sprintf("%s on %s, %s: %s %s of %s allocated, %s really used", agent.GetId(), agent.GetHostname(), how, p.size,
		amountText(p.size, allocated), amountText(p.size, total), amountText(p.size, used))
	if agent.GetWhy() != "" {
		t.title += "; " + agent.GetWhy()
	}
	if total <= 0 {
		return t
	}
	from := 0.0
	fill := func(class string, amount float64) {
		if size := min(1-from, amount/total); size > 0 {
			t.parts = append(t.parts, part{class, from, size})
			from += size
		}
	}
	rest := allocated
	for _, name := range slices.Sorted(maps.Keys(holds)) {
		fill(all.of[name], holds[name])
		rest -= holds[name]
	}
	fill("c0", rest) // executors, and tasks that this person may not see
	t.used = min(1, used/total)
	return t
}
