package quorum

import "time"

// A machine that is short of processors, or whose disk stalls, may need longer for an election than the profile allows.
// Then each candidate spoils the election of another, term after term, and nobody leads although all masters are there.
// So a master that sees terms which do not last increases its timeouts, further each time, until terms last again.

const (
	// TermLasts is how long a term must last to count as a success.
	TermLasts = 3 * time.Second
	// ShortTermsFree is how many short terms in a row are normal, because leaders may be killed or replaced for good
	// reasons.
	ShortTermsFree = 2
	// patienceMax is how often the timeouts are doubled at most.
	patienceMax = 3
)

// Patience counts terms that did not last.
type Patience struct {
	Term  uint64
	Since time.Time
	Short uint64 // short terms in a row
}

// Look returns the factor by which election timeouts should be multiplied now.
func (p *Patience) Look(term uint64, now time.Time) int {
	lasted := now.Sub(p.Since) >= TermLasts
	switch {
	case p.Term == 0:
		p.Term, p.Since = term, now
	case lasted:
		p.Short = 0
		if term != p.Term {
			p.Short = term - p.Term - 1 // the terms in between did not last
			p.Term, p.Since = term, now
		}
	case term != p.Term:
		p.Short += term - p.Term
		p.Term, p.Since = term, now
	}
	if p.Short <= ShortTermsFree {
		return 1
	}
	return 1 << min(p.Short-ShortTermsFree, patienceMax)
}
