package work

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Tally counts how the attempts of one piece of work have ended.
type Tally struct {
	Failures int `json:"failures,omitempty"` // attempts that have failed
	Row      int `json:"row,omitempty"`      // attempts in a row that ended badly
}

// Rules say what becomes of a piece of work when an attempt has ended.
type Rules struct {
	// Service: the work is kept up. However an attempt ends, another one follows, and the work is never given up.
	Service bool
	// Attempts is how many failures end the work; 0 or less: any number may fail.
	Attempts int
	// Bound: the work belongs to one agent, and can't go elsewhere.
	Bound bool
	Backoff
}

// Outcome is what the end of an attempt means for the work.
type Outcome struct {
	// Verdict of the attempt. A task of a service that ended well has ended badly, because it should not have ended.
	Verdict Verdict
	// GivenUp: no other attempt is made.
	GivenUp bool
	// Pause is how long the next attempt waits.
	Pause time.Duration
}

// End counts the end of an attempt, of which this is the last status and which ran for so long since its launch. An end
// that nobody is interested in counts for nothing, unless it has done the work.
func (t *Tally) End(kill Kill, status api.Status, ran time.Duration, rules Rules) Outcome {
	if rules.EndsRow(ran) {
		t.Row = 0
	}
	said := Judge(kill, status)
	switch {
	case said == Well && !rules.Service:
		return Outcome{Verdict: Well}
	case kill == Unwanted:
		return Outcome{Verdict: Ignored}
	case said == Lost:
		t.Row++
		return Outcome{Verdict: Lost, Pause: rules.After(t.Row, true, status.Task)}
	case said == Well:
		said = Badly
	}
	t.Failures++
	t.Row++
	last := said == Refused || rules.Attempts > 0 && t.Failures >= rules.Attempts
	return Outcome{Verdict: said, GivenUp: last && !rules.Service, Pause: rules.After(t.Row, false, status.Task)}
}
