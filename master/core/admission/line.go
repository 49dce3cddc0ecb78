package admission

import (
	"slices"
	"time"
)

const (
	// subscribesMax is how many sessions may ask the registry for admission at once. Further sessions wait for their
	// turn, so that the queue to the quorum keeps room for other changes.
	subscribesMax = 1024
	// LineMax is how many sessions of one framework may wait. One more is refused (Limit).
	LineMax = 16
	// LineRetry is after what time a session that was refused a place in the line should come back.
	LineRetry = time.Second
)

// Lines holds the sessions that ask the registry for admission, and those that wait for their turn to ask. Only one
// session of each framework asks at a time. So a scheduler that opens streams again and again while the quorum is slow
// has only one change under way. Sessions of the same framework have the same identity, which is the key here. Holds: a
// framework that is not asking and has a session in its line is in turns.
type Lines[Session comparable] struct {
	asking map[string]bool
	lines  map[string][]Session // by identity, in order of arrival
	turns  []string             // identities whose first session in line may ask next
}

// NewLines returns lines in which nobody waits.
func NewLines[Session comparable]() Lines[Session] {
	return Lines[Session]{asking: make(map[string]bool), lines: make(map[string][]Session)}
}

// Wait puts a session at the end of its framework's line; it returns false when that line is full (LineMax).
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

// Next takes the session whose turn it is out of its line and notes that it asks. It returns false when no session
// waits, or when subscribesMax sessions are asking.
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

// Leave takes a session out of its line; it returns false when the session is not in it.
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

// Answered notes that the registry has answered the session that asked for this identity.
func (l *Lines[Session]) Answered(who string) {
	delete(l.asking, who)
	if len(l.lines[who]) > 0 {
		l.turns = append(l.turns, who)
	}
}
