package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// chart is who held how much over time, as areas that lie on each other.
type chart struct {
	fill, size string
	areas      []shape
	fair       []float64 // the heights at which the areas would meet if each had its share by weight
	marks      []trackMark
	legend     []swatch
	from, to   time.Time
	empty      string
	told       string            // from what it is drawn
	of         map[string]string // the colours of the holders
}

// The size of a chart in its own units.
const (
	chartWidth  = 1000
	chartHeight = 260
)

// shares shows who holds how much, over time and against what each may have.
func (s *Server) shares(r *http.Request) (page, error) {
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	query := r.URL.Query()
	c := chart{fill: cmp.Or(query.Get("fill"), "role"), size: cmp.Or(query.Get("size"), "cpus"), empty: "Nothing was noted yet; the first figures come in a few seconds."}
	var events []*apiv1.Event
	if m, is := r.Context().Value(mirrorKey{}).(*mirror); is {
		events = m.draw(&c, one, s.accounted(r.Context(), m, r.URL.Query()))
	}
	slices.Reverse(events)
	moved := eventsView(events[:min(len(events), shortMax)], "Nobody came, left, was set up anew or had to give something back.")
	return page{
		title: "Shares", nav: "/shares", command: "tender get roles",
		blocks: []block{
			{key: "chart", title: "Who held how much", note: "of all " + c.size + ", by " + c.fill + "; " + c.told, wide: true, body: chartView(c)},
			{key: "now", title: "Against weights, guarantees and limits", note: "thick line: by weight; dashed: guarantee; dotted: limit", wide: true, body: standingsView(standingsOf(one, c.size, c.of)), command: "tender get roles"},
			{key: "moved", title: "What has moved shares", wide: true, body: tableView(moved), command: "tender events"},
		},
	}, nil
}

// draw draws what the mirror has noted, and returns the events that may have moved shares.
func (m *mirror) draw(c *chart, one *copied, before []sample) (events []*apiv1.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	samples := m.past.after(before)
	if c.told = "as this page was told it, for an hour at most; the line at the foot goes further back"; before != nil {
		c.told = "hour by hour, by the accounting, until this page began to look; shares of all that there is now"
	}
	if !one.then.IsZero() {
		samples = upTo(samples, one.then)
	}
	if len(samples) < 2 {
		return nil
	}
	c.empty, c.from, c.to = "", samples[0].at, samples[len(samples)-1].at
	latest := samples[len(samples)-1]
	of, held := coloursOf(nil, c.fill, c.size), make([]map[string]float64, len(samples))
	for i, s := range samples {
		held[i] = map[string]float64{}
		for _, h := range s.held {
			held[i][of.by(h.holder)] += h.of(c.size) / max(1e-9, s.total.of(c.size))
			of.sums[of.by(h.holder)] += 0
		}
	}
	for _, h := range latest.held {
		of.sums[of.by(h.holder)] += h.of(c.size)
	}
	names := of.paint()
	c.of = of.of
	c.legend = of.legend(c.size)
	if len(names) == 0 {
		c.empty = "Nobody has held any " + c.size + " in this time."
	}
	x := func(at time.Time) float64 {
		return chartWidth * at.Sub(c.from).Seconds() / max(1, c.to.Sub(c.from).Seconds())
	}
	low := make([]float64, len(samples))
	for _, name := range names {
		high := make([]float64, len(samples))
		for i := range samples {
			high[i] = min(1, low[i]+held[i][name])
		}
		c.areas = append(c.areas, areaOf(of.of[name], samples, x, low, high))
		low = high
	}
	if c.fill == "role" {
		reached := 0.0
		for _, name := range names {
			reached += fairShare(name, names, one.roles)
			c.fair = append(c.fair, chartHeight*(1-min(1, reached)))
		}
	}
	for _, event := range m.past.marks {
		if at := event.GetAt().AsTime(); movesShares(event) && !at.Before(c.from) && !at.After(latest.at) {
			events = append(events, event)
			c.marks = append(c.marks, trackMark{x(at), fmt.Sprintf("%s: %s %s %s", momentText(at), event.GetKind(), event.GetName(), event.GetWhat())})
		}
	}
	return events
}

// movesShares reports whether an event may be why shares have changed, other than that tasks begin and end.
func movesShares(event *apiv1.Event) bool {
	switch event.GetKind() {
	case "framework", "role", "offer", "task":
		return true
	case "agent":
		return event.GetWhat() != "updated"
	}
	return false
}

// areaOf draws the area between two lines. Where nothing was noted for a while, it has a hole.
func areaOf(class string, samples []sample, x func(time.Time) float64, low, high []float64) shape {
	var path []byte
	for from := 0; from < len(samples); {
		to := from + 1
		for to < len(samples) && samples[to].joined {
			to++
		}
		command := byte('M')
		for i := from; i < to; i++ {
			path, command = pair(append(path, command), x(samples[i].at), chartHeight*(1-high[i])), 'L'
		}
		for i := to - 1; i >= from; i-- {
			path = pair(append(path, command), x(samples[i].at), chartHeight*(1-low[i]))
		}
		path, from = append(path, 'z'), to
	}
	return shape{class, string(path)}
}

// fairShare returns the share of a role if all those named, and nobody else, wanted all that they can get: level by level
// of the tree, by the weights of the siblings of which one of those named is or lies below.
func fairShare(role string, named []string, roles []*apiv1.RoleView) float64 {
	weights := map[string]float64{}
	for _, one := range roles {
		weights[one.GetRole()] = one.GetWeight()
	}
	weightOf := func(name string) float64 {
		if weight, known := weights[name]; known {
			return weight
		}
		return 1
	}
	share, path := 1.0, strings.Split(role, "/")
	for level := range path {
		siblings := map[string]bool{}
		for _, other := range named {
			if parts := strings.Split(other, "/"); len(parts) > level && slices.Equal(parts[:level], path[:level]) {
				siblings[strings.Join(parts[:level+1], "/")] = true
			}
		}
		sum := 0.0
		for sibling := range siblings { // order: irrelevant because they are added
			sum += weightOf(sibling)
		}
		share *= weightOf(strings.Join(path[:level+1], "/")) / sum
	}
	return share
}

// standing is how much a role has of one kind, and how much it should and may have, as shares of all there is.
type standing struct {
	role, class, amount, told   string
	has, fair, guarantee, limit float64 // guarantee and limit 0: none
}

// standingsOf compares what roles have with what they may have.
func standingsOf(one *copied, kind string, of map[string]string) (all []standing) {
	total := one.sums.total.of(kind)
	var named []string
	for _, role := range one.roles {
		if !slices.ContainsFunc(one.roles, func(other *apiv1.RoleView) bool { return strings.HasPrefix(other.GetRole(), role.GetRole()+"/") }) {
			named = append(named, role.GetRole())
		}
	}
	for _, role := range one.roles {
		name := role.GetRole()
		has, guarantee, limit := amountsOf(role.GetAllocated()).of(kind), amountsOf(role.GetGuarantee()).of(kind), amountsOf(role.GetLimit()).of(kind)
		s := standing{
			role: name, class: cmp.Or(of[name], "c0"), amount: amountText(kind, has), fair: fairShare(name, named, one.roles),
		}
		s.told = fmt.Sprintf("%s of all %s; by weight %s", percent(has, total), kind, percent(s.fair, 1))
		if guarantee > 0 {
			s.told += "; guaranteed " + amountText(kind, guarantee)
		}
		if limit > 0 {
			s.told += "; at most " + amountText(kind, limit)
		}
		if total > 0 {
			s.has, s.guarantee, s.limit = min(1, has/total), min(1, guarantee/total), min(1, limit/total)
		}
		all = append(all, s)
	}
	return all
}
