package trust

import (
	"cmp"
	"time"
)

// How long certificates are good that nobody wants otherwise.
const (
	agentLife = 30 * 24 * time.Hour
	otherLife = 24 * time.Hour
	// LifeMin is the shortest: a certificate that ends sooner could end while it is renewed.
	LifeMin = 10 * time.Second
	// lookEveryMax is how often, at the least, who has a certificate looks whether the masters have another authority.
	lookEveryMax = time.Hour
	// looksPerLife is how often one looks in the life of a certificate, at the least.
	looksPerLife = 24
)

// Lives says how long the certificates are good that an authority signs. Each is renewed at half of its life.
type Lives struct {
	// Agents is for agents. One that is away for longer joins anew. Default 30 days.
	Agents time.Duration
	// Others is for masters, frameworks and people. Default 24 hours.
	Others time.Duration
}

// Of is how long a certificate of the kind is good.
func (l Lives) Of(kind Kind) time.Duration {
	if kind == Agent {
		return cmp.Or(l.Agents, agentLife)
	}
	return cmp.Or(l.Others, otherLife)
}

// LookEvery is about how often who has a certificate of such a life looks whether the masters have another authority.
func LookEvery(life time.Duration) time.Duration { return min(lookEveryMax, life/looksPerLife) }

// OverlapMin is the shortest overlap of two authorities: whoever is there hears of the one that follows before the former one
// ends, and twice as much time is left.
func (l Lives) OverlapMin() time.Duration { return 2 * LookEvery(max(l.Of(Agent), l.Of(Person))) }
