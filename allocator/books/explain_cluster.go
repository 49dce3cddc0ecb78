package books

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

// The ranks of candidates.
const (
	rankFree   = iota // there is room; a filter, a limit, a guarantee or another's preemption is in the way
	rankFull          // others hold what is wanted
	rankAway          // it would fit, and is not offered
	rankBarred        // a constraint excludes it
	rankSmall         // it could not hold what is wanted if it were empty
)

func (c candidate) nearer(than candidate) bool {
	return c.rank < than.rank || c.rank == than.rank && c.free > than.free
}

// whyCluster says what holds the member back over all agents: first what stands between it and the
// agent that is nearest, then what holds for how many, the nearest first.
func (b *Books) whyCluster(m *member) []string {
	id := m.framework.spec.ID
	if len(b.agentNumbers) == 0 {
		return []string{"there are no agents"}
	}
	if large := b.whyTooLarge(m); large != "" {
		return []string{large}
	}
	var tallies []tally
	holding := 0
	for _, a := range b.agents {
		if a == nil {
			continue
		}
		if a.hasOffer(m) {
			holding++
		}
		tallies = count(tallies, b.candidate(m, a))
	}
	slices.SortStableFunc(tallies, func(x, y tally) int {
		return cmp.Or(cmp.Compare(x.nearest.rank, y.nearest.rank), cmp.Compare(y.agents, x.agents))
	})
	var reasons []string
	for i, t := range tallies {
		example := b.whyCandidate(m, t.nearest)
		if i == 0 || t.agents == 1 {
			reasons = append(reasons, example)
		}
		switch of := fmt.Sprintf("%d of %d agents %s", t.agents, len(b.agentNumbers), t.words); {
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
	words := whyWords[c.why]
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
func (b *Books) candidate(m *member, a *agent) candidate {
	c := candidate{agent: a, why: isHeld, rank: rankAway}
	if a.offerable {
		_, c.why = b.why(m, a)
		c.rank = rankOf[c.why]
	}
	if m.demand == nil || c.rank == rankBarred {
		return c
	}
	shape := b.nearestShape(m, a)
	if shape == nil {
		c.rank = rankSmall
		return c
	}
	_, c.free = b.scarcest(shape, a)
	return c
}

// rankOf is how near an agent is that is ruled out by this.
var rankOf = map[refusal]int{nothingLeft: rankFull, nothingFits: rankFull, tooLittle: rankFull, failsConstraint: rankBarred}

// nearestShape is the wanted shape that the agent could hold if it were empty, and of which most is
// free there; nil if it could hold none.
func (b *Books) nearestShape(m *member, a *agent) *shape {
	var best *shape
	most := -1.0
	total := b.kinds.countAll(nil, usableBy(m, a.spec.Total))
	for _, s := range m.demand.shapes {
		ask, known := b.askOf(s)
		if s.left() == 0 || !known || !total.holds(ask) || !b.passes(s.gate, a) {
			continue
		}
		if _, free := b.scarcest(s, a); free > most {
			best, most = s, free
		}
	}
	return best
}

// scarcest is the kind of which the smallest part of what the shape wants is free, and that part.
func (b *Books) scarcest(s *shape, a *agent) (kind int, free float64) {
	open := b.kinds.countAll(nil, a.open)
	kind, free = -1, math.Inf(+1)
	for k, x := range s.ask {
		if x == 0 {
			continue
		}
		if part := float64(open.at(k)) / float64(x); part < free {
			kind, free = k, part
		}
	}
	return kind, free
}

// whyCandidate is what stands between the member and the agent, in words.
func (b *Books) whyCandidate(m *member, c candidate) string {
	if m.demand == nil || c.rank != rankFull || len(c.agent.held) == 0 {
		return b.whyAgent(m, c.agent)
	}
	kind, _ := b.scarcest(b.nearestShape(m, c.agent), c.agent)
	holders := b.holdersOf(c.agent, kind)
	if holders == "" {
		return b.whyAgent(m, c.agent)
	}
	return fmt.Sprintf("%s fits and is full: %s%s", c.agent.id, holders, b.whyLast(m, c.agent))
}

// holdersOf names who holds what of a kind on an agent, who has most first: "web holds 3, batch holds
// 0.5 of 4 cpus".
func (b *Books) holdersOf(a *agent, kind int) string {
	sums := make(map[*framework]int64)
	for _, h := range a.held {
		if x := b.kinds.countAll(nil, h.resources).at(kind); x > 0 {
			sums[b.members[h.member].framework] += x
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
	total := b.kinds.countAll(nil, a.spec.Total).at(kind)
	return fmt.Sprintf("%s of %s %s", strings.Join(parts, ", "), milli(total), b.kinds.names[kind])
}

// whyWords are what one says of several agents.
var whyWords = map[refusal]string{
	granted:         "are offered next",
	isHeld:          "are not offered",
	failsConstraint: "fail a constraint",
	nothingLeft:     "have nothing free",
	isFreed:         "are being freed for it",
	isKept:          "are kept for somebody else",
	overLimit:       "would bring the role above its limit",
	isPromised:      "are held back for guarantees",
	overMost:        "are offered as far as a capped offer goes",
	tooLittle:       "have less than is worth offering",
	nothingFits:     "have too little free",
	notNear:         "are not among the preferred",
	isFiltered:      "are filtered",
	isPutBy:         "are offered next",
	placeFull:       "are where as many are as it wants in one place",
}

// whyTooLarge says which wanted shapes no agent could ever hold, if that is all of them.
// What is revocable comes and goes: nobody can say that there is never enough.
func (b *Books) whyTooLarge(m *member) string {
	if m.demand == nil || slices.ContainsFunc(m.demand.shapes, func(s *shape) bool { return s.revocable && s.left() > 0 }) {
		return ""
	}
	var largest amounts
	for _, a := range b.agents {
		if a == nil {
			continue
		}
		total := b.kinds.count(nil, a.spec.Total, notVolume)
		for _, s := range m.demand.shapes {
			if ask, known := b.askOf(s); known && s.left() > 0 && total.holds(ask) {
				return ""
			}
		}
		for kind, x := range total {
			if x > largest.at(kind) {
				largest.addAt(kind, x-largest.at(kind))
			}
		}
	}
	var most []string
	for kind, x := range largest {
		if x > 0 {
			most = append(most, fmt.Sprintf("%s:%s", b.kinds.names[kind], milli(x)))
		}
	}
	slices.Sort(most)
	return fmt.Sprintf("%s wants %s, more than any agent has; the most that one has of each is %s",
		m.framework.spec.ID, m.wishes(), strings.Join(most, ", "))
}
