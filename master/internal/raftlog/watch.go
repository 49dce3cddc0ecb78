package raftlog

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/tenderhq/tender/master/quorum"
)

// patienceCheckEvery is how often the term is checked.
const patienceCheckEvery = 500 * time.Millisecond

// watchRaft makes Run's goroutine look again at every change of Raft's state or leader.
func (l *Log) watchRaft(r *life) (stop func()) {
	changes := make(chan raft.Observation, 16)
	over := make(chan struct{})
	observer := raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState, raft.LeaderObservation, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	})
	r.RegisterObserver(observer)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		patience := quorum.Patience{}
		check := time.NewTicker(patienceCheckEvery)
		defer check.Stop()
		for {
			l.beAsPatient(r, &patience)
			select {
			case <-check.C:
			case change := <-changes:
				l.noteHeard(r, change)
				l.lookAgain()
				l.config.Changed()
			case <-over:
				return
			}
		}
	}()
	l.lookAgain()
	return func() {
		r.DeregisterObserver(observer)
		close(over)
		<-ended
	}
}

// beAsPatient sets the timeouts of elections. A leader always uses the profile's, because they also determine how often
// it sends heartbeats.
func (l *Log) beAsPatient(r *life, p *quorum.Patience) {
	factor := p.Look(r.CurrentTerm(), time.Now())
	if r.leads() {
		factor = 1
	}
	times := timings[l.config.Profile]
	heartbeat, election := time.Duration(factor)*times.heartbeat, time.Duration(factor)*times.election
	if r.ReloadableConfig().ElectionTimeout == election {
		return
	}
	if factor > 1 {
		l.config.Logger.Warn().Uint64("terms", p.Short).Stringer("timeout", election).
			Msg("terms do not last: elections are given more time")
	}
	r.reload(func(c *raft.ReloadableConfig) {
		c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election
	})
}
