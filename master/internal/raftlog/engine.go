package raftlog

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/tenderhq/tender/master/quorum"
)

// engine is the Raft library as it runs in this master, if it does: one life after the other. Any goroutine may ask it
// for the present one, which may end at any time; what it was asked is answered then at the latest.
type engine struct {
	config *Config
	raft   atomic.Pointer[life] // nil: none runs
}

// running returns the present life of Raft; nil while there is none.
func (e *engine) running() *life { return e.raft.Load() }

// term returns Raft's present term; the known one while none runs.
func (e *engine) term(known uint64) uint64 {
	if r := e.running(); r != nil {
		return r.CurrentTerm()
	}
	return known
}

// follows reports whether we follow this leader in this term.
func (e *engine) follows(leader raft.ServerID, term uint64) bool {
	r := e.running()
	return r != nil && r.follows(leader, term)
}

// state returns what Raft is now; a follower while none runs.
func (e *engine) state() raft.RaftState {
	if r := e.running(); r != nil {
		return r.State()
	}
	return raft.Follower
}

// patience returns how long silence is tolerated in this life of Raft.
func (e *engine) patience() time.Duration {
	if r := e.running(); r != nil {
		return r.ReloadableConfig().ElectionTimeout
	}
	return timings[e.config.Profile].election
}

// hears reports whether messages of a master count; see [life.hears].
func (e *engine) hears(server raft.ServerID) bool {
	r := e.running()
	return r == nil || r.hears(server)
}

// beAsPatient sets the timeouts of elections. A leader always uses the profile's, because they also determine how often
// it sends heartbeats.
func (e *engine) beAsPatient(r *life, p *quorum.Patience) {
	factor := p.Look(r.CurrentTerm(), time.Now())
	if r.leads() {
		factor = 1
	}
	times := timings[e.config.Profile]
	heartbeat, election := time.Duration(factor)*times.heartbeat, time.Duration(factor)*times.election
	if r.ReloadableConfig().ElectionTimeout == election {
		return
	}
	if factor > 1 {
		e.config.Logger.Warn().Uint64("terms", p.Short).Stringer("timeout", election).
			Msg("terms do not last: elections are given more time")
	}
	r.reload(func(c *raft.ReloadableConfig) {
		c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election
	})
}

// patienceCheckEvery is how often the term is checked.
const patienceCheckEvery = 500 * time.Millisecond
