package core

import (
	"fmt"
	"github.com/tenderhq/tender/internal/words"
)

// beginHold keeps roles under a limit waiting until the agents have told what runs (R20).
func (c *Core) beginHold() {
	if len(c.awaited) == 0 {
		return
	}
	c.policy.Hold(true)
	c.deadlines.set(c.hold, c.now.Add(c.config.RecoveryHold))
}

// holdDue ends the hold though some agents are not back.
func (c *Core) holdDue() {
	c.endHold(fmt.Sprintf("after %v the leader still missed %s", c.config.RecoveryHold, words.Count(len(c.awaited), "agent")))
}

// settleHold: nothing more is to be waited for from this agent.
func (c *Core) settleHold(a *agent) {
	if !c.awaited[a.id] {
		return
	}
	delete(c.awaited, a.id)
	if len(c.awaited) == 0 && c.hold.place != 0 {
		c.endHold("all agents have reported")
	}
}

func (c *Core) endHold(why string) {
	c.deadlines.clear(c.hold)
	clear(c.awaited)
	c.policy.Hold(false)
	c.info("recovery hold ended", Field{"why", why})
}

// holding says that the hold is on.
func (c *Core) holding() bool { return c.hold.place != 0 }
