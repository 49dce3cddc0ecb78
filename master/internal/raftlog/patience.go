package raftlog

import (
	"time"

	"github.com/hashicorp/raft"
)

// A machine that is short of processors, or whose disk stalls, may need longer for an
// election than the profile allows. Then each candidate spoils the election of another,
// term after term, and nobody leads although all are there. So whoever sees terms that
// do not last waits longer each time, as long as they do not.

const (
	// termLasts is how long a term has to last to be a success.
	termLasts = 3 * time.Second
	// shortTermsFree is how many short terms in a row are nothing unusual: leaders may be
	// killed or replaced for good reasons.
	shortTermsFree = 2
	// patienceMax is how often the times are doubled at most.
	patienceMax = 3
	// patienceCheckEvery is how often the term is looked at.
	patienceCheckEvery = 500 * time.Millisecond
)

// patience counts terms that did not last.
type patience struct {
	term  uint64
	since time.Time
	short uint64 // terms in a row
}

// look says by what the times of elections are to be multiplied now.
func (p *patience) look(term uint64, now time.Time) int {
	lasted := now.Sub(p.since) >= termLasts
	switch {
	case p.term == 0:
		p.term, p.since = term, now
	case lasted:
		p.short = 0
		if term != p.term {
			p.short = term - p.term - 1 // those between did not last
			p.term, p.since = term, now
		}
	case term != p.term:
		p.short += term - p.term
		p.term, p.since = term, now
	}
	if p.short <= shortTermsFree {
		return 1
	}
	return 1 << min(p.short-shortTermsFree, patienceMax)
}

// beAsPatient sets the times of elections. Who leads has the profile's: by them it
// sends its heartbeats.
func (l *Log) beAsPatient(r *life, p *patience) {
	factor := p.look(r.CurrentTerm(), time.Now())
	if r.State() == raft.Leader {
		factor = 1
	}
	times := timings[l.config.Profile]
	heartbeat, election := time.Duration(factor)*times.heartbeat, time.Duration(factor)*times.election
	if r.ReloadableConfig().ElectionTimeout == election {
		return
	}
	if factor > 1 {
		l.config.Logger.Warn().Uint64("terms", p.short).Stringer("timeout", election).
			Msg("terms do not last: elections are given more time")
	}
	l.reload(r, func(c *raft.ReloadableConfig) {
		c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election
	})
}

// reload changes some of Raft's settings.
func (l *Log) reload(r *life, change func(*raft.ReloadableConfig)) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	config := r.ReloadableConfig()
	change(&config)
	if err := r.ReloadConfig(config); err != nil { // they are all good
		l.config.Logger.Warn().Err(err).Msg("raft does not take its settings")
	}
}
