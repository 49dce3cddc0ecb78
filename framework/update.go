package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/internal/core"
)

var (
	errOtherFramework = errors.New("ID, Name, Principal and Standby say who the framework is and can't be changed; run another one")
	errUpdateUnknown  = errors.New("no master has confirmed it; it may still come into effect")
	errOvertaken      = core.ErrOvertaken
)

// UpdateFramework changes what the framework says of itself, without a new subscription: roles, constraint, MinOffer,
// MaxOffer, FailoverTimeout, Revocable, labels and endpoints; everything but who it is. change is given the present
// values and edits them; it is called again if another update comes first.
//
//	err := client.UpdateFramework(ctx, func(f *api.Framework) { f.Roles = append(f.Roles, "night") })
//
// UpdateFramework waits until a majority of the masters have the change, over failovers, until ctx ends; in that case
// the change may still come into effect (kind [api.Unavailable]). nil means that it holds, now and in every later
// session of this Run; a new Run begins with its own Config. Only roles may be lost: when the principal may run in one
// of the framework's roles no more, the next session begins in those of the Config ([Client.Roles]). If the masters refuse the change (kinds [api.Invalid],
// [api.Limit]), nothing has changed. The offers in a role that was left are rescinded ([Rescinder]), and so are the
// offers of agents that a new constraint rules out; the tasks there continue. A new role is not suppressed.
// UpdateFramework may be called from callbacks.
func (c *Client) UpdateFramework(ctx context.Context, change func(framework *api.Framework)) error {
	for {
		err := c.updateOnce(ctx, change)
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
}

func (c *Client) updateOnce(ctx context.Context, change func(framework *api.Framework)) error {
	const op = "framework.update"
	wish, saw, err := c.makeWish(change)
	if err != nil {
		return api.E(op, api.Invalid, c.FrameworkID(), err)
	}
	number, answer, err := c.askCore(op, func(number uint64) core.Happening { return core.UpdateAsked{Request: number, Wish: wish, Saw: saw} })
	if err != nil {
		return err
	}
	select {
	case told := <-answer:
		return told.err
	case <-c.ended: // the loop answers before it ends, so it has not even taken the question
		select {
		case told := <-answer:
			return told.err
		default:
			return api.E(op, api.Unavailable, c.FrameworkID(), errEnded)
		}
	case <-ctx.Done():
		_ = c.askLoop(op, func(l *loop) { l.withdrawUpdate(number) }) // fails only when Run has ended
		return api.E(op, api.Unavailable, c.FrameworkID(), fmt.Errorf("%w: %w", errUpdateUnknown, context.Cause(ctx)))
	}
}

// withdrawUpdate notes that the caller no longer waits for the reply of this number.
func (l *loop) withdrawUpdate(number uint64) {
	delete(l.replies, number)
	l.stepCore(core.UpdateWithdrawn{Request: number})
}

// makeWish lets change edit a copy of the present values, and checks the result.
func (c *Client) makeWish(change func(framework *api.Framework)) (wish api.Framework, saw uint64, err error) {
	now, saw, _ := c.present.look()
	wish = copyOf(now)
	change(&wish)
	wish = copyOf(wish) // a second copy, as the user may go on editing his maps
	if len(wish.Roles) == 0 {
		wish.Roles = []api.Role{api.DefaultRole}
	}
	if wish.ID != now.ID || wish.Name != now.Name || wish.Principal != now.Principal || wish.Standby != now.Standby {
		return wish, saw, errOtherFramework
	}
	return wish, saw, errors.Join(faultsOf(wish)...)
}

func copyOf(framework api.Framework) api.Framework {
	framework.Roles = slices.Clone(framework.Roles)
	framework.Labels = maps.Clone(framework.Labels)
	framework.Endpoints = maps.Clone(framework.Endpoints)
	return framework
}
