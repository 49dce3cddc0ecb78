package admission

import (
	"slices"
	"time"
)

const (
	// subscribesMax is how many sessions ask the registry to admit them at once; the others wait
	// for their turn. The queue to the quorum keeps room for everybody else.
	subscribesMax = 1024
	// LineMax is how many sessions of one framework wait. One more is refused (Limit).
	LineMax = 16
	// LineRetry is when a session that had no place in it is to come back.
	LineRetry = time.Second
)

// Lines are the sessions that ask the registry to admit them, and those that wait for that.
// Of one framework one asks at a time: whoever opens streams again and again, while the quorum is
// slow, has one change under way. Sessions that want to be one framework have the same identity.
// Holds: a framework that is not asking and has somebody in its line is among the turns.
type Lines[Session comparable] struct {
	asking map[string]bool
	lines  map[string][]Session // by identity, first come first
	turns  []string             // frameworks whose first in line may ask
}

// NewLines are lines in which nobody waits.
func NewLines[Session comparable]() Lines[Session] {
	return Lines[Session]{asking: make(map[string]bool), lines: make(map[string][]Session)}
}

// Wait puts a session at the end of its framework's line; false when too many stand there already.
func (l *Lines[Session]) Wait(who string, s Session) bool {
	if len(l.lines[who]) >= LineMax {
		return false
	}
	l.lines[who] = append(l.lines[who], s)
	if !l.asking[who] && len(l.lines[who]) == 1 {
		l.turns = append(l.turns, who)
	}
	return true
}

// Next is the session whose turn it is; false when there is none, or as many ask as may.
func (l *Lines[Session]) Next() (next Session, is bool) {
	for len(l.turns) > 0 && len(l.asking) < subscribesMax {
		who := l.turns[0]
		l.turns = l.turns[1:]
		if line := l.lines[who]; len(line) > 0 && !l.asking[who] {
			next = line[0]
			l.Leave(who, next)
			l.asking[who] = true
			return next, true
		}
	}
	return next, false
}

// Leave takes a session out of its line; false when it is in none.
func (l *Lines[Session]) Leave(who string, s Session) bool {
	at := slices.Index(l.lines[who], s)
	if at < 0 {
		return false
	}
	if l.lines[who] = slices.Delete(l.lines[who], at, at+1); len(l.lines[who]) == 0 {
		delete(l.lines, who)
	}
	return true
}

// Answered notes that the registry has answered a session of this identity.
func (l *Lines[Session]) Answered(who string) {
	delete(l.asking, who)
	if len(l.lines[who]) > 0 {
		l.turns = append(l.turns, who)
	}
}
