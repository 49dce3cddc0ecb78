package work

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Attempt is a task that does a piece of work, from its launch to its end, or until nobody waits for that any more. The
// attempts of a face embed it. Jobs store the fields that have names.
type Attempt struct {
	Number  int           `json:"n"` // of the attempts of the piece; a later one has a higher one
	Task    api.TaskID    `json:"-"`
	Agent   api.AgentID   `json:"agent"`
	State   api.TaskState `json:"-"`                // as it was told last; unspecified: nothing was told
	Since   time.Time     `json:"since"`            // when it was launched
	Running time.Time     `json:"-"`                // when RUNNING was told for the first time; zero: it was not
	Up      time.Time     `json:"-"`                // since when it is RUNNING, and healthy if its health is told; zero: it is not
	Silent  time.Time     `json:"-"`                // since when its agent is taken for dead; zero: it is not
	Missed  bool          `json:"missed,omitempty"` // its agent was silent for so long that the work was begun elsewhere
	Copying Copying       `json:"copy,omitempty"`
	Kill    Kill          `json:"killed,omitempty"`
}

// Copying says whether an attempt was found slow, and what was done about it.
type Copying uint8

// Each attempt gets at most one copy.
const (
	NoCopy    Copying = iota
	WantsCopy         // it was found slow, and its copy waits for an agent
	HadCopy           // it gets no other copy
	IsCopy            // it was launched beside another attempt
)

func (a *Attempt) attempt() *Attempt { return a }

// attempted is a pointer to what a face embeds an [Attempt] in.
type attempted interface {
	comparable
	attempt() *Attempt
}

// Hear takes in a status that does not settle the task. A task with checks is not up before it has passed them.
func (a *Attempt) Hear(status api.Status, checked bool, now time.Time) {
	a.State = status.State
	runs := status.State == api.TaskRunning
	if runs && a.Running.IsZero() {
		a.Running = now
	}
	if status.State != api.TaskUnreachable {
		a.Silent = time.Time{}
	} else if a.Silent.IsZero() {
		a.Silent = now
	}
	up := runs && !checked
	if status.Healthy != nil {
		up = runs && *status.Healthy
	}
	if !up {
		a.Up = time.Time{}
	} else if a.Up.IsZero() {
		a.Up = now
	}
}

// Ends notes that the framework ends the task, and reports whether that is the first time.
func (a *Attempt) Ends(why Kill) (first bool) {
	first = a.Kill == NotKilled
	a.Kill = max(a.Kill, why)
	return first
}

// IsCopy reports whether the attempt was launched beside another one, which goes on.
func (a *Attempt) IsCopy() bool { return a.Copying == IsCopy }

// Holds reports whether the attempt does the work of its piece, so that no other one is wanted.
func (a *Attempt) Holds() bool { return a.Kill != Unwanted && !a.Missed }

// Piece is a piece of work with its attempts: the one that does it; those that were missed, whose agents may come back;
// a copy; and those that were killed and have not ended.
type Piece[A attempted] struct {
	Tally
	Attempts []A `json:"attempts,omitempty"` // by number
	// Avoids is the agent on which so many attempts in a row have ended badly that the next one is tried elsewhere first
	// (see [AvoidAfter]). Not stored, for another manager's next attempt may do well there.
	Avoids api.AgentID `json:"-"`
}

// Add adds an attempt that was launched, or that another process has launched. The one that a copy was wanted of has it
// now.
func (p *Piece[A]) Add(a A) {
	for _, other := range p.Attempts {
		if a.attempt().IsCopy() && other.attempt().Copying == WantsCopy {
			other.attempt().Copying = HadCopy
		}
	}
	at := len(p.Attempts)
	for at > 0 && p.Attempts[at-1].attempt().Number > a.attempt().Number {
		at--
	}
	p.Attempts = slices.Insert(p.Attempts, at, a)
	p.Avoids = ""
}

// Remove takes an attempt out. If it was the last that is no copy, the copy takes its place.
func (p *Piece[A]) Remove(a A) {
	p.Attempts = slices.DeleteFunc(p.Attempts, func(other A) bool { return other == a })
	if !slices.ContainsFunc(p.Attempts, func(a A) bool { return a.attempt().Holds() && !a.attempt().IsCopy() }) {
		for _, other := range p.Attempts {
			if other.attempt().IsCopy() {
				other.attempt().Copying = HadCopy
			}
		}
	}
}

// Of returns the attempt that this task is; nil: none is.
func (p *Piece[A]) Of(task api.TaskID) (a A) {
	for _, a := range p.Attempts {
		if a.attempt().Task == task {
			return a
		}
	}
	return a
}

// Held reports whether some attempt does the work.
func (p *Piece[A]) Held() bool {
	return slices.ContainsFunc(p.Attempts, func(a A) bool { return a.attempt().Holds() })
}

// Foresee returns what the end of an attempt means, of which this is the last status, and how it is counted. The end of
// a copy counts for nothing, unless it has done the work or the other attempt does not go on.
func (p *Piece[A]) Foresee(of A, status api.Status, now time.Time, rules Rules) (Tally, Outcome) {
	a, tally := of.attempt(), p.Tally
	kill := a.Kill
	if a.IsCopy() && !rules.Service && slices.ContainsFunc(p.Attempts, func(other A) bool { return other != of && other.attempt().Holds() }) {
		kill = Unwanted
	}
	outcome := tally.End(kill, status, now.Sub(a.Since), rules)
	return tally, outcome
}

// End takes out an attempt that has ended, and counts how.
func (p *Piece[A]) End(of A, status api.Status, now time.Time, rules Rules) (outcome Outcome) {
	p.Tally, outcome = p.Foresee(of, status, now, rules)
	p.Remove(of)
	if p.Row >= AvoidAfter && !rules.Bound && outcome.Verdict != Ignored && !outcome.GivenUp {
		p.Avoids = of.attempt().Agent
	}
	return outcome
}

// Stays returns which attempt goes on when a silent agent has come back, and those that are to be ended. A copy goes on
// beside the other. Nil: no attempt does the work. Wanted says whether an attempt runs what is wanted.
func (p *Piece[A]) Stays(service bool, wanted func(A) bool) (goesOn A, ends []A) {
	for _, a := range p.Attempts {
		if a.attempt().Holds() && !a.attempt().IsCopy() {
			ends = append(ends, a)
		}
	}
	if len(ends) == 0 {
		return goesOn, nil
	}
	at := 0
	for i, a := range ends {
		if best := ends[at]; wanted(a) && !wanted(best) || wanted(a) == wanted(best) && a.attempt().goesBefore(best.attempt(), service) {
			at = i
		}
	}
	goesOn = ends[at]
	return goesOn, slices.Delete(ends, at, at+1)
}

// goesBefore reports whether of two attempts this one goes on.
//
// Of work that ends the oldest goes on, because it has done most, if it runs: hours of it may be done. Of a service one
// that is ready goes on, and of several the newest: the agent of the others was silent, and who uses the service has
// changed to the newest already. A task of another version goes on only if there is none of the wanted one.
func (a *Attempt) goesBefore(other *Attempt, service bool) bool {
	ready, runs := !a.Up.IsZero(), a.State == api.TaskRunning
	switch {
	case service && ready == other.Up.IsZero():
		return ready
	case runs != (other.State == api.TaskRunning):
		return runs
	case service && ready:
		return a.Number > other.Number
	}
	return a.Number < other.Number
}
