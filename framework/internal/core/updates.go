package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// updates are changes of what the framework says of itself. At most one is sent at a time; the others wait for their
// turn, and for a session.
type updates struct {
	*base
	self    *self
	session *session
	demands *demands

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
	u.queue = slices.DeleteFunc(u.queue, func(queued update) bool { return queued.request == request && queued.call == 0 })
}

// unsend takes back the first update, when nobody knows whether it has come into effect. The next subscription states
// what held before it; then the update is sent again.
func (u *updates) unsend() {
	if len(u.queue) > 0 {
		u.queue[0].call = 0
	}
}

// send sends the first update, if there is a session and no other update is under way.
func (u *updates) send() {
	for len(u.queue) > 0 && u.queue[0].call == 0 && u.session.phase == active {
		first := &u.queue[0]
		if first.saw != u.changes {
			u.finish(ErrOvertaken)
			continue
		}
		first.wish.ID = u.self.framework.ID // the caller may not have known it
		first.call = u.session.sendCall(protocol.UpdateFramework{Framework: first.wish})
	}
}

// answered handles the answer to an update. It reports whether the call was an update.
func (u *updates) answered(call uint64, refused *api.Error) bool {
	if len(u.queue) == 0 || u.queue[0].call != call || call == 0 {
		return false
	}
	if refused == nil {
		u.self.framework = u.queue[0].wish
		u.frameworkChanged()
		u.log(Info, "framework updated")
		u.finish(nil)
	} else {
		u.finish(refused)
	}
	u.send()
	return true
}

// leaveAddedRoles takes back the roles that updates have added, when a subscription was denied: if the principal may run
// in one of them no more, the framework goes on in the roles with which Run began, as another instance would.
func (u *updates) leaveAddedRoles(denied error) {
	if slices.Equal(u.self.framework.Roles, u.config.Framework.Roles) {
		return
	}
	u.log(Warn, "going on in the roles of the config", Field{"left", u.self.framework.Roles}, Field{"error", denied})
	u.self.framework.Roles = slices.Clone(u.config.Framework.Roles)
	u.frameworkChanged()
}

// frameworkChanged counts a change of what the framework says of itself, and tells it.
func (u *updates) frameworkChanged() {
	u.changes++
	u.demands.replaceRoles(u.self.framework.Roles)
	u.emit(FrameworkChanged{Framework: u.self.framework, Changes: u.changes})
}

func (u *updates) finish(err error) {
	u.emit(UpdateEnded{Request: u.queue[0].request, Err: err})
	u.queue = u.queue[1:]
}
