package core

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// hold keeps roles under a limit waiting after a failover, until the agents have told what runs (R20).
type hold struct {
	*base
	awaited  map[api.AgentID]bool // agents that have not reported
	deadline *deadline
}

// beginHold keeps roles under a limit waiting until the agents have told what runs (R20).
func (r *hold) beginHold() {
	if len(r.awaited) == 0 {
		return
	}
	r.policy.Hold(true)
	r.deadlines.set(r.deadline, r.now.Add(r.config.RecoveryHold))
}

// holdDue ends the hold though some agents are not back.
func (r *hold) holdDue() {
	r.endHold(fmt.Sprintf("after %v the leader still missed %s", r.config.RecoveryHold, words.Count(len(r.awaited), "agent")))
}

// settleHold notes that the hold need not wait for this agent any more.
func (r *hold) settleHold(a *agent) {
	if !r.awaited[a.id] {
		return
	}
	delete(r.awaited, a.id)
	if len(r.awaited) == 0 && r.deadline.place != 0 {
		r.endHold("all agents have reported")
	}
}

func (r *hold) endHold(why string) {
	r.deadlines.clear(r.deadline)
	clear(r.awaited)
	r.policy.Hold(false)
	r.info("recovery hold ended", Field{"why", why})
}

// holding says that the hold is on.
func (r *hold) holding() bool { return r.deadline.place != 0 }
