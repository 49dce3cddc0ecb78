package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// Outcome says what became of an offer or an inverse offer, in a word for people.
type Outcome string

// The outcomes.
const (
	Accepted  Outcome = "accepted"
	Declined  Outcome = "declined"
	Expired   Outcome = "expired"
	Rescinded Outcome = "rescinded"
	AskedBack Outcome = "asked back"
	GaveBack  Outcome = "given back"
	TookBack  Outcome = "taken back"
	Withdrawn Outcome = "withdrawn"
)

// Decision is what was decided about a framework, in figures: sentences are made when
// somebody asks.
type Decision struct {
	At        time.Time
	Made      time.Time   // the offer
	Offer     api.OfferID // or inverse offer; of an accept the first
	Agent     api.AgentID
	Role      api.Role
	Resources api.Resources
	Outcome   Outcome
	Why       string // what else there is to say

	// Of an accept:
	Offers   int // that it named
	Launched int // tasks
	Refused  int // tasks
	Done     int // other operations
	Failed   int // other operations

	Left   api.Resources // given back by an accept
	Filter time.Duration // that an answer left behind; 0 = none
}

// Words are the rest of the sentence that the outcome begins.
func (d *Decision) Words() string {
	switch {
	case d.Outcome == Accepted:
		return d.acceptWords()
	case d.Why != "":
		return d.Why
	}
	return d.filterWords()
}

func (d *Decision) acceptWords() string {
	var parts []string
	count := func(n int, noun, became string) {
		if n > 0 {
			parts = append(parts, words.Count(n, noun)+" "+became)
		}
	}
	count(d.Launched, "task", "launched")
	count(d.Refused, "task", "refused")
	count(d.Done, "operation", "done")
	count(d.Failed, "operation", "refused")
	if len(parts) == 0 {
		parts = append(parts, "nothing launched")
	}
	if d.Why != "" {
		parts = append(parts, d.Why)
	}
	if d.Offers > 1 {
		parts = append(parts, fmt.Sprintf("with %d offers", d.Offers))
	}
	text := strings.Join(parts, ", ")
	if !d.Left.IsZero() {
		text += fmt.Sprintf("; %v went back, %s", d.Left, d.filterWords())
	}
	return text
}

func (d *Decision) filterWords() string {
	if d.Filter == 0 {
		return "no filter"
	}
	return "filter for " + words.Span(d.Filter)
}
