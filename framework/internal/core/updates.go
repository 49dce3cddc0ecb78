package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// updates are changes of what the framework says of itself. At most one is sent at a time; the others wait for their
// turn, and for a session.
type updates struct {
	queue   []update
	changes uint64 // how many have come into effect
}

// update is one change.
type update struct {
	request uint64 // number of the request of the caller who waits for it
	wish    api.Framework
	saw     uint64 // how many changes had come into effect when the caller made it
	call    uint64 // number of the call in this session; 0 = not sent
}

func (u *updates) add(asked UpdateAsked) {
	u.queue = append(u.queue, update{request: asked.Request, wish: asked.Wish, saw: asked.Saw})
}

// withdraw forgets an update whose caller no longer waits, unless it was sent already.
func (u *updates) withdraw(request uint64) {
	u.queue = slices.DeleteFunc(u.queue, func(one update) bool { return one.request == request && one.call == 0 })
}

// unsend takes back the first update, when nobody knows whether it has come into effect. The next subscription states
// what held before it; then the update is sent again.
func (u *updates) unsend() {
	if len(u.queue) > 0 {
		u.queue[0].call = 0
	}
}

// sendUpdate sends the first update, if there is a session and no other update is under way.
func (c *Core) sendUpdate() {
	for len(c.updates.queue) > 0 && c.updates.queue[0].call == 0 && c.session.phase == active {
		first := &c.updates.queue[0]
		if first.saw != c.updates.changes {
			c.finishUpdate(ErrOvertaken)
			continue
		}
		first.wish.ID = c.self.framework.ID // the caller may not have known it
		first.call = c.sendCall(protocol.UpdateFramework{Framework: first.wish})
	}
}

// updateAnswered handles the answer to an update. It reports whether the call was an update.
func (c *Core) updateAnswered(call uint64, refused *api.Error) bool {
	if len(c.updates.queue) == 0 || c.updates.queue[0].call != call || call == 0 {
		return false
	}
	if refused == nil {
		c.self.framework = c.updates.queue[0].wish
		c.frameworkChanged()
		c.log(Info, "framework updated")
		c.finishUpdate(nil)
	} else {
		c.finishUpdate(refused)
	}
	c.sendUpdate()
	return true
}

// leaveAddedRoles takes back the roles that updates have added, when a subscription was denied: if the principal may run
// in one of them no more, the framework goes on in the roles with which Run began, as another instance would.
func (c *Core) leaveAddedRoles() {
	if slices.Equal(c.self.framework.Roles, c.config.Framework.Roles) {
		return
	}
	c.log(Warn, "going on in the roles of the config", Field{"left", c.self.framework.Roles}, Field{"error", c.search.absence.trouble})
	c.self.framework.Roles = slices.Clone(c.config.Framework.Roles)
	c.frameworkChanged()
}

// frameworkChanged counts a change of what the framework says of itself, and tells it.
func (c *Core) frameworkChanged() {
	c.updates.changes++
	c.demands.join(c.self.framework.Roles)
	c.emit(FrameworkChanged{Framework: c.self.framework, Changes: c.updates.changes})
}

func (c *Core) finishUpdate(err error) {
	c.emit(UpdateEnded{Request: c.updates.queue[0].request, Err: err})
	c.updates.queue = c.updates.queue[1:]
}
