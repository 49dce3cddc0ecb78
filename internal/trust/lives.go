package trust

import (
	"cmp"
	"time"
)

// The defaults for how long certificates are valid.
const (
	agentLife = 30 * 24 * time.Hour
	otherLife = 24 * time.Hour
	// LifeMin is the shortest life of a certificate: a shorter one could expire while it is being renewed.
	LifeMin = 10 * time.Second
	// lookEveryMax is the longest pause between two checks whether the masters have another authority.
	lookEveryMax = time.Hour
	// looksPerLife is how many such checks are made at least in the life of a certificate.
	looksPerLife = 24
)

// Lives says how long the certificates are valid that an authority signs. Each is renewed at half of its life.
type Lives struct {
	// Agents is for agents. An agent that is away for longer has to join anew. Default 30 days.
	Agents time.Duration
	// Others is for masters, frameworks and people. Default 24 hours.
	Others time.Duration
}

// Of returns how long a certificate of this kind is valid.
func (l Lives) Of(kind Kind) time.Duration {
	if kind == Agent {
		return cmp.Or(l.Agents, agentLife)
	}
	return cmp.Or(l.Others, otherLife)
}

// LookEvery returns about how often the owner of a certificate with this life checks whether the masters have another
// authority.
func LookEvery(life time.Duration) time.Duration { return min(lookEveryMax, life/looksPerLife) }

// OverlapMin returns the shortest overlap of two authorities. It is twice LookEvery of the longest life, so that
// every member that is there hears of the new one in time.
func (l Lives) OverlapMin() time.Duration { return 2 * LookEvery(max(l.Of(Agent), l.Of(Person))) }
