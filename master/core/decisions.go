package core

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// decisionsMax bounds what is remembered of one framework; the oldest is forgotten.
const decisionsMax = 20

// outcome says what became of an offer or an inverse offer, in a word for people.
type outcome string

const (
	offerAccepted  outcome = "accepted"
	offerDeclined  outcome = "declined"
	offerExpired   outcome = "expired"
	offerRescinded outcome = "rescinded"
	askedBack      outcome = "asked back"
	gaveBack       outcome = "given back"
	tookBack       outcome = "taken back"
	withdrawn      outcome = "withdrawn"
)

// decision is what was decided about a framework, in figures: sentences are made when
// somebody asks.
type decision struct {
	at        time.Time
	made      time.Time
	offer     api.OfferID
	agent     api.AgentID
	role      api.Role
	resources api.Resources
	outcome   outcome
	why       string // what else there is to say

	// Of an accept:
	offers   int // that it named
	launched int // tasks
	refused  int // tasks
	done     int // other operations
	failed   int // other operations

	left   api.Resources // given back by an accept
	filter time.Duration // that an answer left behind; 0 = none
}

// decisions are the latest of one framework since this leader leads. Frameworks that are
// offered nothing have none.
type decisions struct {
	latest []decision
	oldest int // once there are decisionsMax
}

func (d *decisions) add(one decision) {
	if len(d.latest) < decisionsMax {
		d.latest = append(d.latest, one)
		return
	}
	d.latest[d.oldest] = one
	d.oldest = (d.oldest + 1) % decisionsMax
}

// ended remembers how an offer ended that no accept has used.
func (c *Core) ended(o *offer, how outcome, why string, filter time.Duration) {
	o.framework.decisions.add(decision{
		at: c.now, made: o.made, offer: o.id, agent: o.agent.id, role: o.role, resources: o.resources,
		outcome: how, why: why, offers: 1, launched: o.did.launched, refused: o.did.refused, filter: filter,
	})
}

// answered remembers how an accept ended: its offers as one.
func (c *Core) answered(x *acceptance, one decision) {
	one = x.summary(one)
	one.at = c.now
	x.session.framework.decisions.add(one)
}

// summary adds to what was done with which offers: those of the first part, of an answer in
// parts, because they hold all that it could use.
func (x *acceptance) summary(one decision) decision {
	if one.offers > 0 {
		return one
	}
	first := x.offers[0]
	one.made, one.offer, one.agent, one.role = first.made, first.id, x.agent.id, x.role
	one.outcome, one.offers, one.resources = offerAccepted, len(x.offers), first.resources
	for _, o := range x.offers[1:] {
		one.resources = one.resources.Plus(o.resources)
	}
	return one
}

// asked remembers a step in the life of an inverse offer.
func (c *Core) asked(x *inverse, how outcome, why string) {
	x.framework.decisions.add(decision{
		at: c.now, made: x.made, offer: x.id, agent: x.agent.id, role: x.role, resources: x.resources,
		outcome: how, why: why,
	})
}

// ExplainedDecision is something that was decided about a framework.
type ExplainedDecision struct {
	At        time.Time
	Made      time.Time   // the offer
	Offer     api.OfferID // or inverse offer; of an accept the first
	Agent     api.AgentID
	Role      api.Role
	Resources api.Resources
	Outcome   string // a word or two
	Why       string // the rest of the sentence
	Launched  int    // tasks
}

// explainDecisions lists what is remembered, the newest last; only of one agent, if named.
func (fw *framework) explainDecisions(agent api.AgentID) []ExplainedDecision {
	var explained []ExplainedDecision
	latest := fw.decisions.latest
	for i := range latest {
		one := &latest[(fw.decisions.oldest+i)%len(latest)]
		if agent == "" || agent == one.agent {
			explained = append(explained, ExplainedDecision{At: one.at, Made: one.made, Offer: one.offer, Agent: one.agent, Role: one.role,
				Resources: one.resources, Outcome: string(one.outcome), Why: one.words(), Launched: one.launched})
		}
	}
	return explained
}

// words are the rest of the sentence that the outcome begins.
func (d *decision) words() string {
	switch {
	case d.outcome == offerAccepted:
		return d.acceptWords()
	case d.why != "":
		return d.why
	}
	return d.filterWords()
}

func (d *decision) acceptWords() string {
	var words []string
	count := func(n int, noun, became string) {
		if n > 0 {
			words = append(words, plural(n, noun)+" "+became)
		}
	}
	count(d.launched, "task", "launched")
	count(d.refused, "task", "refused")
	count(d.done, "operation", "done")
	count(d.failed, "operation", "refused")
	if len(words) == 0 {
		words = append(words, "nothing launched")
	}
	if d.why != "" {
		words = append(words, d.why)
	}
	if d.offers > 1 {
		words = append(words, fmt.Sprintf("with %d offers", d.offers))
	}
	text := strings.Join(words, ", ")
	if !d.left.IsZero() {
		text += fmt.Sprintf("; %v went back, %s", d.left, d.filterWords())
	}
	return text
}

// plural counts a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (d *decision) filterWords() string {
	if d.filter == 0 {
		return "no filter"
	}
	return "filter for " + words.Span(d.filter)
}
