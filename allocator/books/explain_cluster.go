package books

import (
	"fmt"
	"slices"
	"strings"
)

// tally counts agents by the reason why the member is not offered them.
type tally struct {
	words   string
	agents  int
	example string
}

// whyCluster says what holds the member back over all agents, the most frequent first.
func (b *Books) whyCluster(m *member) []string {
	id := m.framework.spec.ID
	if len(b.agentNumbers) == 0 {
		return []string{"there are no agents"}
	}
	if large := b.whyTooLarge(m); large != "" {
		return []string{large}
	}
	var tallies []tally
	count := func(words, example string) {
		for i := range tallies {
			if tallies[i].words == words {
				tallies[i].agents++
				return
			}
		}
		tallies = append(tallies, tally{words, 1, example})
	}
	holding := 0
	for _, a := range b.agents {
		if a == nil {
			continue
		}
		if a.hasOffer(m) {
			holding++
		}
		why := isHeld
		if a.offerable {
			_, why = b.why(m, a)
		}
		count(whyWords[why], b.whyAgent(m, a))
	}
	slices.SortStableFunc(tallies, func(x, y tally) int { return y.agents - x.agents })
	var reasons []string
	for _, t := range tallies {
		if t.agents == 1 {
			reasons = append(reasons, t.example)
		} else {
			reasons = append(reasons, fmt.Sprintf("%d of %d agents %s; one of them: %s", t.agents, len(b.agentNumbers), t.words, t.example))
		}
	}
	if holding > 0 {
		reasons = append(reasons, fmt.Sprintf("%s has not answered offers of %d agents in role %s", id, holding, m.role.name))
	}
	return reasons
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
