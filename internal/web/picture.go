package web

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// picture is all agents as tiles, each filled with what holds it.
type picture struct {
	by, fill, size string
	groupings      []string // what one may group by
	groups         []group
	legend         []swatch
	many           bool // more tiles than have an element each
}

// swatch explains a colour.
type swatch struct{ class, name, amount string }

// group is the agents that have the same place.
type group struct {
	name    string
	count   int
	columns int
	tiles   []tile  // of few agents
	shapes  []shape // of many agents: one for each colour, of all tiles together
	ids     []string
}

// tile is an agent: where it stands in its group, how large it is, and by what it is filled, in units of the picture.
type tile struct {
	id, href, title, class string
	x, y, side             float64
	parts                  []part // from the bottom up, as shares of the side
	used                   float64
}

// shape is what has one colour.
type shape struct{ class, path string }

// step is the distance of two tiles.
const step = 20

const (
	// tilesMax is how many tiles have an element each, with a link and a title. More are drawn as one shape for each colour,
	// so that a browser bears them, and the script says which agent is where.
	tilesMax = 600
	// tilesNamedMax is how many tiles one can go through by keyboard; the list of agents is there for more.
	tilesNamedMax = 200
)

// pictureOf draws the agents as the query of the address says: by=zone&fill=role&size=cpus.
func pictureOf(query url.Values, one *copied) picture {
	p := picture{by: query.Get("by"), many: len(one.agents) > tilesMax}
	p.fill, p.size = filledBy(query)
	attributes := map[string]bool{}
	zones, most := false, 0.0
	for _, agent := range one.agents {
		zones = zones || agent.GetZone() != ""
		for name := range agent.GetAttributes() { // order: irrelevant because they are sorted below
			attributes[name] = true
		}
		most = max(most, one.sums.agents[agent.GetId()][0].of(p.size))
	}
	p.groupings = append([]string{"zone", "region", "state"}, slices.Sorted(maps.Keys(attributes))...)
	if p.by == "" && !zones && attributes["rack"] {
		p.by = "rack"
	}
	p.by = cmp.Or(p.by, "zone")
	all := coloursOf(one.sums.all, p.fill, p.size)
	p.legend = all.legend(p.size)
	placed := map[string][]*apiv1.AgentView{}
	for _, agent := range one.agents {
		name := p.placeOf(agent)
		placed[name] = append(placed[name], agent)
	}
	for _, name := range slices.SortedFunc(maps.Keys(placed), words.CompareNatural) {
		agents := placed[name]
		g := group{name: name, count: len(agents), columns: columnsFor(len(agents))}
		var outline pen
		for i, agent := range agents {
			t := p.tileOf(agent, one, all, most)
			t.x, t.y = float64(i%g.columns)*step, float64(i/g.columns)*step
			if p.many {
				outline.draw(t)
				g.ids = append(g.ids, t.id)
			} else {
				t.title = p.titleOf(agent, one)
				g.tiles = append(g.tiles, t)
			}
		}
		g.shapes = outline.shapes()
		p.groups = append(p.groups, g)
	}
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

// filledBy returns by what the query of an address has tiles filled and sized.
func filledBy(query url.Values) (fill, size string) {
	return cmp.Or(query.Get("fill"), "role"), cmp.Or(query.Get("size"), "cpus")
}

func noteOf(query url.Values) string {
	fill, size := filledBy(query)
	return "each square an agent, as large as its " + size + ", filled by " + fill + "; the line is what is really used"
}

// lateOf returns the address at which the picture of many agents comes with the page. Elsewhere the page comes first, and
// the picture with its first patch.
func lateOf(at *url.URL, many bool) string {
	query := at.Query()
	if !many || query.Has("whole") {
		return ""
	}
	query.Set("whole", "1")
	return "/?" + query.Encode()
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
	by   func(holder) string
	sums map[string]float64
	of   map[string]string
}

// coloursMax is how many colours there are; holders beyond them share the last.
const coloursMax = 8

// coloursOf returns the colours of all holders, by their role, their framework or their job.
func coloursOf(all []holding, fill, kind string) colours {
	c := colours{func(h holder) string { return h.role }, map[string]float64{}, map[string]string{}}
	switch fill {
	case "framework":
		c.by = func(h holder) string { return h.framework }
	case "job":
		c.by = func(h holder) string { return cmp.Or(h.job, "no job") }
	}
	for _, one := range all {
		c.sums[c.by(one.holder)] += one.of(kind)
	}
	c.paint()
	return c
}

// paint gives each holder its colour, and returns the holders in their order.
func (c colours) paint() []string {
	names := slices.Sorted(maps.Keys(c.sums))
	for i, name := range names {
		c.of[name] = fmt.Sprint("c", min(i, coloursMax-1)+1)
	}
	return names
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
func (p picture) tileOf(agent *apiv1.AgentView, one *copied, all colours, most float64) tile {
	id := agent.GetId()
	total := one.sums.agents[id][0].of(p.size)
	t := tile{id: id, href: agentPath(id), side: step - 2}
	if most > 0 {
		t.side = max(step*0.3, (step-2)*math.Sqrt(total/most))
	}
	how, class := condition(agent)
	switch {
	case class == "bad" && how == agent.GetState():
		t.class = "silent"
	case class == "bad":
		t.class = "ill"
	case class == "warn":
		t.class = "drain"
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
	rest := one.sums.agents[id][1].of(p.size)
	for _, held := range one.sums.on[id] {
		fill(all.of[all.by(held.holder)], held.of(p.size))
		rest -= held.of(p.size)
	}
	fill("c0", rest) // executors, and tasks that this person may not see
	t.used = min(1, usedOf(one.used[id], p.size)/total)
	return t
}

// titleOf says about an agent what its tile shows.
func (p picture) titleOf(agent *apiv1.AgentView, one *copied) string {
	how, _ := condition(agent)
	amounts := one.sums.agents[agent.GetId()]
	title := fmt.Sprintf("%s on %s, %s: %s %s of %s allocated, %s really used", agent.GetId(), agent.GetHostname(), how, p.size,
		amountText(p.size, amounts[1].of(p.size)), amountText(p.size, amounts[0].of(p.size)), amountText(p.size, usedOf(one.used[agent.GetId()], p.size)))
	if agent.GetWhy() != "" {
		title += "; " + agent.GetWhy()
	}
	return title
}

// layers are the classes of shapes, what is below first.
var layers = [...]string{"free", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "used", "drain", "silent", "ill"}

// pen draws many tiles as one shape for each colour. The zero value is usable.
type pen struct{ paths [len(layers)][]byte }

func (p *pen) draw(t tile) {
	p.rectangle("free", t.x, t.y, t.side, t.side)
	for _, part := range t.parts {
		p.rectangle(part.class, t.x, t.y+t.side*(1-part.from-part.size), t.side, t.side*part.size)
	}
	if t.used > 0 {
		line := p.of("used")
		*line = length(append(pair(append(*line, 'M'), t.x, t.y+t.side*(1-t.used)), 'h'), t.side)
	}
	if t.class == "silent" {
		line := p.of(t.class)
		*line = pair(append(pair(append(*line, 'M'), t.x, t.y), 'l'), t.side, t.side)
	}
	if t.class != "" {
		p.rectangle(t.class, t.x+0.5, t.y+0.5, t.side-1, t.side-1)
	}
}

func (p *pen) of(class string) *[]byte { return &p.paths[slices.Index(layers[:], class)] }

func (p *pen) rectangle(class string, x, y, width, height float64) {
	path := p.of(class)
	*path = length(append(pair(append(*path, 'M'), x, y), 'h'), width)
	*path = length(append(*path, 'v'), height)
	*path = append(length(append(*path, 'h'), -width), 'z')
}

func pair(path []byte, x, y float64) []byte { return length(append(length(path, x), ' '), y) }

// length writes a length in tenths of a unit.
func length(path []byte, of float64) []byte {
	tenths := int64(math.Round(10 * of))
	if tenths < 0 {
		path, tenths = append(path, '-'), -tenths
	}
	path = strconv.AppendInt(path, tenths/10, 10)
	if tenths%10 != 0 {
		path = append(path, '.', byte('0'+tenths%10))
	}
	return path
}

// shapes returns what was drawn.
func (p *pen) shapes() (all []shape) {
	for i, path := range p.paths {
		if len(path) > 0 {
			all = append(all, shape{layers[i], string(path)})
		}
	}
	return all
}
