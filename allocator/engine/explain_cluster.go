package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/internal/words"
)

// tally counts the agents that the member is not offered for one reason, and remembers the nearest of them.
type tally struct {
	words   string
	agents  int
	nearest candidate
}

// candidate is an agent, and what stands between it and the member.
type candidate struct {
	agent *books.Agent
	why   refusal
	rank  int     // the lower, the nearer
	free  float64 // the free part of what the member wants there, of the kind of which the smallest part is free
}

func (c candidate) nearer(than candidate) bool {
	return c.rank < than.rank || c.rank == than.rank && c.free > than.free
}

// whyCluster returns what holds the member back over all agents. First it says what stands between the member and the
// nearest agent, then each reason with the number of agents, the nearest first.
func (e *explainer) whyCluster(m *books.Member) []string {
	id := m.Framework.Spec.ID
	if len(e.AgentNumbers) == 0 {
		return []string{"there are no agents"}
	}
	if large := e.whyTooLarge(m); large != "" {
		return []string{large}
	}
	var tallies []tally
	holding := 0
	for _, a := range e.Agents {
		if a == nil {
			continue
		}
		if a.HasOffer(m) {
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
		switch of := fmt.Sprintf("%d of %d agents %s", t.agents, len(e.AgentNumbers), t.words); {
		case t.agents == 1:
		case i == 0:
			reasons = append(reasons, of)
		default:
			reasons = append(reasons, of+"; one of them: "+example)
		}
	}
	if holding > 0 {
		reasons = append(reasons, fmt.Sprintf("%s has not answered offers of %s in role %s", id, words.Count(holding, "agent"), m.Role.Name))
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

// candidate judges how near the agent is to being offered.
func (e *explainer) candidate(m *books.Member, a *books.Agent) candidate {
	c := candidate{agent: a, why: e.decide(question{member: m, agent: a, careful: true}).why}
	c.rank = refusals[c.why].rank
	if m.Demand == nil || c.rank == rankBarred {
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

// nearestShape returns, of the wanted shapes that the agent could hold if it were empty, the one of which the largest
// part is free there; nil if it could hold none.
func (e *explainer) nearestShape(m *books.Member, a *books.Agent) *books.Shape {
	var best *books.Shape
	most := -1.0
	total := e.Kinds.CountAll(nil, books.UsableBy(m, a.Spec.Total))
	for _, s := range m.Demand.Shapes {
		ask, known := e.AskOf(s)
		if s.Left() == 0 || !known || !total.Holds(ask) || !e.Passes(s.Gate, a) {
			continue
		}
		if _, free := e.scarcest(s, a); free > most {
			best, most = s, free
		}
	}
	return best
}

// scarcest returns the scarcest kind of resource: the one of which the smallest part of what the shape wants is free.
// It also returns that part.
func (e *explainer) scarcest(s *books.Shape, a *books.Agent) (kind int, free float64) {
	open := e.Kinds.CountAll(nil, a.Open)
	kind, free = -1, math.Inf(+1)
	for k, x := range s.Ask {
		if x == 0 {
			continue
		}
		if part := float64(open.At(k)) / float64(x); part < free {
			kind, free = k, part
		}
	}
	return kind, free
}

// whyCandidate says in words what stands between the member and the agent.
func (e *explainer) whyCandidate(m *books.Member, c candidate) string {
	if m.Demand == nil || c.rank != rankFull || c.agent.HoldsNothing() {
		return e.whyAgent(m, c.agent)
	}
	kind, _ := e.scarcest(e.nearestShape(m, c.agent), c.agent)
	holders := e.holdersOf(c.agent, kind)
	if holders == "" {
		return e.whyAgent(m, c.agent)
	}
	return fmt.Sprintf("%s fits and is full: %s%s%s", c.agent.ID, holders, whyUsed(m, c.agent), e.whyLast(m, c.agent))
}

// holdersOf says who holds how much of a kind on an agent, the largest holder first: "web holds 3, batch holds 0.5 of 4
// cpus".
func (e *explainer) holdersOf(a *books.Agent, kind int) string {
	sums := make(map[*books.Framework]int64)
	for h := range a.Held {
		if x := e.Kinds.CountAll(nil, h.Resources).At(kind); x > 0 {
			sums[e.Members[h.Member].Framework] += x
		}
	}
	alike := make(map[string]int)
	for f := range sums { // order: irrelevant because they are counted
		alike[f.Spec.Name]++
	}
	holders := slices.SortedFunc(maps.Keys(sums), func(x, y *books.Framework) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x.Spec.ID, y.Spec.ID))
	})
	var parts []string
	for i, f := range holders {
		if i == holdersMax {
			parts = append(parts, fmt.Sprintf("%d more frameworks hold some", len(holders)-holdersMax))
			break
		}
		name := cmp.Or(f.Spec.Name, string(f.Spec.ID))
		if f.Spec.Name != "" && alike[f.Spec.Name] > 1 {
			name = fmt.Sprintf("%s (%s)", f.Spec.Name, f.Spec.ID)
		}
		parts = append(parts, fmt.Sprintf("%s holds %s", name, milli(sums[f])))
	}
	if len(parts) == 0 {
		return ""
	}
	total := e.Kinds.CountAll(nil, a.Spec.Total).At(kind)
	return fmt.Sprintf("%s of %s %s", strings.Join(parts, ", "), milli(total), e.Kinds.Names[kind])
}

// whyTooLarge names the wanted shapes that no agent could ever hold, if that is true of all wanted shapes. For
// revocable resources nobody can say that, because they change all the time. Volumes have no amount that counts here.
func (e *explainer) whyTooLarge(m *books.Member) string {
	if m.Demand == nil || slices.ContainsFunc(m.Demand.Shapes, func(s *books.Shape) bool { return (s.Revocable || s.WantsVolume()) && s.Left() > 0 }) {
		return ""
	}
	var largest books.Amounts
	for _, a := range e.Agents {
		if a == nil {
			continue
		}
		total := e.Kinds.Count(nil, a.Spec.Total, meetsAny)
		for _, s := range m.Demand.Shapes {
			if ask, known := e.AskOf(s); known && s.Left() > 0 && total.Holds(ask) {
				return ""
			}
		}
		for kind, x := range total {
			if x > largest.At(kind) {
				largest.AddAt(kind, x-largest.At(kind))
			}
		}
	}
	var most []string
	for kind, x := range largest {
		if x > 0 {
			most = append(most, fmt.Sprintf("%s:%s", e.Kinds.Names[kind], milli(x)))
		}
	}
	slices.Sort(most)
	return fmt.Sprintf("%s wants %s, more than any agent has; the most that one has of each is %s",
		m.Framework.Spec.ID, m.Wishes(), strings.Join(most, ", "))
}
