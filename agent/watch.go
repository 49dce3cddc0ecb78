package agent

import (
	"context"
	"time"
)

// sessionTimeoutDefault holds until a leader has said another one.
const sessionTimeoutDefault = 5 * time.Second

// longestRound is how long a round of the loop may take: three session timeouts, as the leader told them last.
func (a *Agent) longestRound() time.Duration {
	if told := time.Duration(a.leader.timeout.Load()); told > 0 {
		return 3 * told
	}
	return 3 * sessionTimeoutDefault
}

// watchLoop ends the session of an agent whose loop is stuck, with the place in the log
// (R36). Tasks run on; a new session begins when the loop has come round.
func (a *Agent) watchLoop(ctx context.Context) {
	for {
		evidence := a.round.Watch(ctx, a.longestRound)
		if evidence == "" {
			return
		}
		a.log.Error().Stringer("longest", a.longestRound()).Str("stack", evidence).Msg("the agent's loop is stuck")
		a.metrics.stuck.Add(1)
		if link := a.leader.shown.Load(); link != nil {
			link.close("the agent's loop is stuck")
		}
	}
}
