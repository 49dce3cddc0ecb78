package wire

import (
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Ends remembers how tasks have ended, as leaders have told it, so that whoever hears an end again from a later leader
// knows that (R65). It has the latest ones. Its zero value has none. Knows may be called from any goroutine while nothing
// else is.
type Ends struct {
	young, old map[string]end // by FRAMEWORK/TASK; when young is full it takes the place of old
}

// end is how a task has ended, and the term of the leader that has told it.
type end struct {
	what string
	term api.Term
}

const (
	// endsMax is how many ends are remembered at least, once there are as many; at most there are twice as many.
	endsMax = 16_384
	// ToldAgain is what an end is called that a later leader tells again. It is not notable.
	ToldAgain = "reported"
	// ToldAgainWhy says so.
	ToldAgainWhy = "its agent has told its end again"
)

// endWords are the words of events for how a task may end.
var endWords = func() map[string]bool {
	words := make(map[string]bool)
	for state := range api.TaskUnknown {
		if state.Terminal() {
			words[strings.ToLower(state.String())] = true
		}
	}
	return words
}()

// Note takes in what a leader of a term has told of a task: the word of an event. An end that is told again changes nothing.
func (e *Ends) Note(task, what string, term api.Term) {
	switch {
	case what == "launched": // it was DROPPED before, and ends once more
		delete(e.young, task)
		delete(e.old, task)
	case endWords[what] && !e.Knows(task, what, term):
		if len(e.young) >= endsMax {
			e.old, e.young = e.young, nil
		}
		if e.young == nil {
			e.young = make(map[string]end)
		}
		e.young[strings.Clone(task)] = end{strings.Clone(what), term}
	}
}

// Knows reports whether a leader of an earlier term has told that the task has ended in this way.
func (e *Ends) Knows(task, what string, term api.Term) bool {
	known, is := e.young[task]
	if !is {
		known, is = e.old[task]
	}
	return is && known.what == what && known.term.Before(term)
}

// Settle takes in the next event. Is it an end that its leader has heard from a report, and that an earlier one has told,
// then it says from now on that it is told again.
func (e *Ends) Settle(event *apiv1.Event) {
	if event.GetKind() != "task" {
		return
	}
	term := CursorOf(event.GetCursor()).Term
	if event.GetHeard() && e.Knows(event.GetName(), event.GetWhat(), term) {
		event.What, event.Why, event.Notable, event.Heard = ToldAgain, ToldAgainWhy, false, false
		return
	}
	e.Note(event.GetName(), event.GetWhat(), term)
}
