package protocol

import "time"

// KillGraces is what all kills of a task so far have asked for: the shortest grace that one of them named, and whether
// one named none, which means the task's own. Only the task's agent knows that, so both are repeated and the agent takes
// what ends the task sooner: a second kill shortens, and never lengthens (R12).
type KillGraces struct {
	Shortest time.Duration // 0: none was named
	Own      bool
}

// Ask takes another kill in; 0 is the task's own grace.
func (g *KillGraces) Ask(grace time.Duration) {
	switch {
	case grace <= 0:
		g.Own = true
	case g.Shortest == 0 || grace < g.Shortest:
		g.Shortest = grace
	}
}

// Each is the grace of each kill that has to be told.
func (g KillGraces) Each() []time.Duration {
	var graces []time.Duration
	if g.Own {
		graces = append(graces, 0)
	}
	if g.Shortest > 0 {
		graces = append(graces, g.Shortest)
	}
	return graces
}
