package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// late is filled by a policy that answers after it was asked, as one in another process.
type late interface {
	// Behind reports whether it was told something that it has not answered yet.
	Behind() bool
}

// giveBack returns resources to the policy, and remembers since when they wait for the
// next offer.
func (r *offers) giveBack(claim allocator.Claim) {
	if _, waits := r.freed[claim.Agent]; !waits {
		r.freed[claim.Agent] = r.came
	}
	r.policy.Return(claim)
}

// served tells the shell since when what is offered now was free. What the policy has
// seen and offers to nobody is not waited for: nobody wants it.
func (r *offers) served(claims []allocator.Claim) {
	if len(r.freed) == 0 {
		return
	}
	var since []time.Time
	for _, claim := range claims {
		if at, waits := r.freed[claim.Agent]; waits {
			since = append(since, at)
			delete(r.freed, claim.Agent)
		}
	}
	if policy, is := r.policy.(late); !is || !policy.Behind() {
		clear(r.freed)
	}
	if len(since) > 0 {
		r.emit(Served{Since: since})
	}
}

// freed is since when resources of agents wait for their next offer.
type freed map[api.AgentID]time.Time
