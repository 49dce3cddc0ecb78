package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// update is a change of what the framework says of itself. One at a time is at the
// master; the others wait for their turn, and for a session.
type update struct {
	wish api.Framework
	saw  uint64     // how many updates had come into effect when the wish was made
	call uint64     // its number in this session; 0 = not sent
	done chan error // capacity 1
}

var (
	errOtherFramework = errors.New("ID, Name, Principal and Standby say who the framework is and can't be changed; run another one")
	errUpdateUnknown  = errors.New("no master has confirmed it; it may still come into effect")
	errOvertaken      = errors.New("another update came first")
)

// UpdateFramework changes what the framework says of itself without a new
// subscription: roles, constraint, least and largest offer, failover time, revocable,
// labels and endpoints; all but who it is. change is given what holds now and edits it,
// once more if another update comes first.
//
//	err := client.UpdateFramework(ctx, func(f *api.Framework) { f.Roles = append(f.Roles, "night") })
//
// It waits until a majority of the masters have it, over failovers, at most until ctx
// ends: then it may still come into effect (kind [api.Unavailable]). nil means that it
// holds, now and in every later session of this Run; a new Run begins with its own
// Config. What the masters refuse (kinds [api.Invalid], [api.Limit]) has changed
// nothing. Offers in a role that was left are gone ([Rescinder]), and so are those of
// agents that a new constraint rules out; tasks there go on. A role that is new is not
// suppressed. It may be called from callbacks.
func (c *Client) UpdateFramework(ctx context.Context, change func(framework *api.Framework)) error {
	for {
		err := c.update(ctx, change)
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
}

func (c *Client) update(ctx context.Context, change func(framework *api.Framework)) error {
	const op = "framework.update"
	u, err := c.wish(change)
	if err != nil {
		return api.E(op, api.Invalid, c.FrameworkID(), err)
	}
	if err := c.ask(op, func() { c.loop.addUpdate(u) }); err != nil {
		return err
	}
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
		_ = c.ask(op, func() { c.loop.withdrawUpdate(u) }) // fails only when Run has ended
		return api.E(op, api.Unavailable, c.FrameworkID(), fmt.Errorf("%w: %w", errUpdateUnknown, context.Cause(ctx)))
	}
}

// wish has the change made to a copy of what holds, and judges it.
func (c *Client) wish(change func(framework *api.Framework)) (*update, error) {
	c.mu.Lock()
	now, saw := c.framework, c.updates
	c.mu.Unlock()
	wish := copyOf(now)
	change(&wish)
	wish = copyOf(wish) // the user may go on editing his maps
	if len(wish.Roles) == 0 {
		wish.Roles = []api.Role{api.DefaultRole}
	}
	if wish.ID != now.ID || wish.Name != now.Name || wish.Principal != now.Principal || wish.Standby != now.Standby {
		return nil, errOtherFramework
	}
	return &update{wish: wish, saw: saw, done: make(chan error, 1)}, errors.Join(faultsOf(wish)...)
}

func copyOf(framework api.Framework) api.Framework {
	framework.Roles = slices.Clone(framework.Roles)
	framework.Labels = maps.Clone(framework.Labels)
	framework.Endpoints = maps.Clone(framework.Endpoints)
	return framework
}

func (l *loop) addUpdate(u *update) {
	l.updates = append(l.updates, u)
	l.sendUpdate()
}

// sendUpdate sends the first update, if there is a session and none is on its way.
func (l *loop) sendUpdate() {
	for len(l.updates) > 0 && l.updates[0].call == 0 && l.session.phase == active {
		u := l.updates[0]
		if u.saw != l.changes {
			l.finishUpdate(errOvertaken)
			continue
		}
		u.wish.ID = l.framework.ID // it may not have been known
		u.call = l.send(protocol.UpdateFramework{Framework: u.wish})
	}
}

// updateEnded takes the answer to an update; it reports whether the call was one.
func (l *loop) updateEnded(call uint64, refused *api.Error) bool {
	if len(l.updates) == 0 || l.updates[0].call != call || call == 0 {
		return false
	}
	if refused == nil {
		l.framework = l.updates[0].wish
		l.changes++
		l.wishes.join(l.framework.Roles)
		l.client.holds(l.framework, l.changes)
		l.log.Info("framework updated")
	}
	l.finishUpdate(asError(refused))
	l.sendUpdate()
	return true
}

func (l *loop) finishUpdate(err error) {
	l.updates[0].done <- err
	l.updates = l.updates[1:]
}

// withdrawUpdate forgets an update for which nobody waits, unless it is on its way.
func (l *loop) withdrawUpdate(u *update) {
	if u.call == 0 {
		l.updates = slices.DeleteFunc(l.updates, func(other *update) bool { return other == u })
	}
}

// unsendUpdate ends the way of the first: nobody knows what became of it. The next
// subscription says what held before, then it is sent again.
func (l *loop) unsendUpdate() {
	if len(l.updates) > 0 {
		l.updates[0].call = 0
	}
}

func (l *loop) endUpdates() {
	for len(l.updates) > 0 {
		l.finishUpdate(api.E("framework.update", api.Unavailable, l.framework.ID, errEnded))
	}
}

// holds is told by the loop: what the framework now says of itself.
func (c *Client) holds(framework api.Framework, updates uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.framework, c.updates = framework, updates
}
