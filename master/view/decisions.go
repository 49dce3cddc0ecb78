package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// Outcome says what became of an offer or an inverse offer, as a word for people.
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

// Decision is a decision about a framework, in figures. Sentences are made when somebody asks.
type Decision struct {
	At        time.Time
	Made      time.Time   // when the offer was made
	Offer     api.OfferID // the offer or inverse offer; of an accept the first offer
	Agent     api.AgentID
	Role      api.Role
	Resources api.Resources
	Outcome   Outcome
	Why       string // further words

	// Only for an accept:
	Offers   int // how many offers it named
	Launched int // tasks
	Refused  int // tasks
	Done     int // other operations
	Failed   int // other operations

	Left   api.Resources // what the accept gave back
	Filter time.Duration // the filter that the answer has set; 0 = none
}

// Words returns the rest of the sentence that begins with the outcome.
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
