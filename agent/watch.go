package agent

import (
	"context"
	"time"
)

// roundMax is how long a round of the loop may take: three session timeouts, as they are
// unless a leader says otherwise.
const roundMax = 15 * time.Second

// watchLoop ends the session of an agent whose loop is stuck, with the place in the log
// (R36). Tasks run on; a new session begins when the loop has come round.
func (a *Agent) watchLoop(ctx context.Context) {
	for {
		evidence := a.round.Watch(ctx, roundMax)
		if evidence == "" {
			return
		}
		a.log.Error().Stringer("longest", roundMax).Str("stack", evidence).Msg("the agent's loop is stuck")
		a.metrics.stuck.Add(1)
		if link := a.link.Load(); link != nil {
			link.close("the agent's loop is stuck")
		}
	}
}
