package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// tally counts agents by the reason why the member is not offered them, with the nearest of them.
type tally struct {
	words   string
	agents  int
	nearest candidate
}

// candidate is an agent with what stands between it and the member.
type candidate struct {
	agent *agent
	why   refusal
	rank  int     // the lower, the nearer
	free  float64 // of what the member wants there, the part that is free of the kind of which least is
}

func (c candidate) nearer(than candidate) bool {
	return c.rank < than.rank || c.rank == than.rank && c.free > than.free
}

// whyCluster says what holds the member back over all agents: first what stands between it and the
// agent that is nearest, then what holds for how many, the nearest first.
func (e *explainer) whyCluster(m *member) []string {
	id := m.framework.spec.ID
	if len(e.agentNumbers) == 0 {
		return []string{"there are no agents"}
	}
	if large := e.whyTooLarge(m); large != "" {
		return []string{large}
	}
	var tallies []tally
	holding := 0
	for _, a := range e.agents {
		if a == nil {
			continue
		}
		if a.hasOffer(m) {
			holding++
		}
		tallies = count(tallies, e.candidate(m, a))
	}
	slices.SortStableFunc(tallies, func(x, y tally) int {
		return cmp.Or(cmp.Compare(x.nearest.rank, y.nearest.rank), cmp.Compare(y.agents, x.agents))
	})
	var reasons []string
	for i, t := range tallies {
		example := e.whyCandidate(m, t.nearest)
		if i == 0 || t.agents == 1 {
			reasons = append(reasons, example)
		}
		switch of := fmt.Sprintf("%d of %d agents %s", t.agents, len(e.agentNumbers), t.words); {
		case t.agents == 1:
		case i == 0:
			reasons = append(reasons, of)
		default:
			reasons = append(reasons, of+"; one of them: "+example)
		}
	}
	if holding > 0 {
		reasons = append(reasons, fmt.Sprintf("%s has not answered offers of %d agents in role %s", id, holding, m.role.name))
	}
	return reasons
}

func count(tallies []tally, c candidate) []tally {
	words := refusals[c.why].plural
	for i := range tallies {
		if t := &tallies[i]; t.words == words {
			t.agents++
			if c.nearer(t.nearest) {
				t.nearest = c
			}
			return tallies
		}
	}
	return append(tallies, tally{words, 1, c})
}

// candidate judges how near the agent is.
func (e *explainer) candidate(m *member, a *agent) candidate {
	c := candidate{agent: a, why: e.decide(question{member: m, agent: a, careful: true}).why}
	c.rank = refusals[c.why].rank
	if m.demand == nil || c.rank == rankBarred {
		return c
	}
	shape := e.nearestShape(m, a)
	if shape == nil {
		c.rank = rankSmall
		return c
	}
	_, c.free = e.scarcest(shape, a)
	return c
}

// nearestShape is the wanted shape that the agent could hold if it were empty, and of which most is
// free there; nil if it could hold none.
func (e *explainer) nearestShape(m *member, a *agent) *shape {
	var best *shape
	most := -1.0
	total := e.kinds.countAll(nil, usableBy(m, a.spec.Total))
	for _, s := range m.demand.shapes {
		ask, known := e.askOf(s)
		if s.left() == 0 || !known || !total.holds(ask) || !e.passes(s.gate, a) {
			continue
		}
		if _, free := e.scarcest(s, a); free > most {
			best, most = s, free
		}
	}
	return best
}

// scarcest is the kind of which the smallest part of what the shape wants is free, and that part.
func (e *explainer) scarcest(s *shape, a *agent) (kind int, free float64) {
	open := e.kinds.countAll(nil, a.open)
	kind, free = -1, math.Inf(+1)
	for k, x := range s.ask {
		if x == 0 {
			continue
		}
		if part := float64(open.At(k)) / float64(x); part < free {
			kind, free = k, part
		}
	}
	return kind, free
}

// whyCandidate is what stands between the member and the agent, in words.
func (e *explainer) whyCandidate(m *member, c candidate) string {
	if m.demand == nil || c.rank != rankFull || len(c.agent.held) == 0 {
		return e.whyAgent(m, c.agent)
	}
	kind, _ := e.scarcest(e.nearestShape(m, c.agent), c.agent)
	holders := e.holdersOf(c.agent, kind)
	if holders == "" {
		return e.whyAgent(m, c.agent)
	}
	return fmt.Sprintf("%s fits and is full: %s%s", c.agent.id, holders, e.whyLast(m, c.agent))
}

// holdersOf names who holds what of a kind on an agent, who has most first: "web holds 3, batch holds
// 0.5 of 4 cpus".
func (e *explainer) holdersOf(a *agent, kind int) string {
	sums := make(map[*framework]int64)
	for _, h := range a.held {
		if x := e.kinds.countAll(nil, h.resources).At(kind); x > 0 {
			sums[e.members[h.member].framework] += x
		}
	}
	holders := slices.SortedFunc(maps.Keys(sums), func(x, y *framework) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x.spec.ID, y.spec.ID))
	})
	var parts []string
	for i, f := range holders {
		if i == holdersMax {
			parts = append(parts, fmt.Sprintf("%d more frameworks hold some", len(holders)-holdersMax))
			break
		}
		parts = append(parts, fmt.Sprintf("%s holds %s", orElse(f.spec.Name, string(f.spec.ID)), milli(sums[f])))
	}
	if len(parts) == 0 {
		return ""
	}
	total := e.kinds.countAll(nil, a.spec.Total).At(kind)
	return fmt.Sprintf("%s of %s %s", strings.Join(parts, ", "), milli(total), e.kinds.names[kind])
}

// whyTooLarge says which wanted shapes no agent could ever hold, if that is all of them.
// What is revocable comes and goes: nobody can say that there is never enough.
func (e *explainer) whyTooLarge(m *member) string {
	if m.demand == nil || slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.revocable && s.left() > 0 }) {
		return ""
	}
	var largest Amounts
	for _, a := range e.agents {
		if a == nil {
			continue
		}
		total := e.kinds.count(nil, a.spec.Total, notVolume)
		for _, s := range m.demand.shapes {
			if ask, known := e.askOf(s); known && s.left() > 0 && total.holds(ask) {
				return ""
			}
		}
		for kind, x := range total {
			if x > largest.At(kind) {
				largest.addAt(kind, x-largest.At(kind))
			}
		}
	}
	var most []string
	for kind, x := range largest {
		if x > 0 {
			most = append(most, fmt.Sprintf("%s:%s", e.kinds.names[kind], milli(x)))
		}
	}
	slices.Sort(most)
	return fmt.Sprintf("%s wants %s, more than any agent has; the most that one has of each is %s",
		m.framework.spec.ID, m.wishes(), strings.Join(most, ", "))
}
