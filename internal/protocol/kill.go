package protocol

import "time"

// KillGraces is what all kills of a task have asked for so far: the shortest grace that one of them named, and whether
// one named none, which means the task's own. Only the task's agent knows that one. So both are repeated, and the agent
// takes the one that ends the task sooner: a further kill can shorten the grace, and never lengthen it (R12).
type KillGraces struct {
	Shortest time.Duration // 0: none was named
	Own      bool
}

// Ask adds another kill; 0 is the task's own grace.
func (g *KillGraces) Ask(grace time.Duration) {
	switch {
	case grace <= 0:
		g.Own = true
	case g.Shortest == 0 || grace < g.Shortest:
		g.Shortest = grace
	}
}

// Each returns the grace of each kill that has to be told.
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
