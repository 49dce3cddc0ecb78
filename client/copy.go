package client

import (
	"context"
	"slices"
	"sync"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
)

// Copy is a copy of what a watch tells: the agents, frameworks, tasks, offers, roles and masters as they are. It may be
// used from any goroutine. The views that it returns must not be changed. The zero value is empty.
type Copy struct {
	mu      sync.Mutex
	kinds   map[string]map[string]*apiv1.Change // by kind and name
	cursor  *apiv1.Cursor
	whole   bool
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// Keep keeps the copy up to date until ctx ends or the watch fails, and returns why.
func (c *Copy) Keep(ctx context.Context, client *Client, request *apiv1.WatchRequest) error {
	for news, err := range client.Watch(ctx, request) {
		if err != nil {
			return err
		}
		c.Take(news)
	}
	return context.Cause(ctx)
}

// Take takes in a response of a watch. Responses must come in the order of the watch.
func (c *Copy) Take(news *apiv1.WatchResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if news.GetMissed() != "" || c.kinds == nil {
		c.kinds, c.whole = make(map[string]map[string]*apiv1.Change), false
	}
	for _, change := range news.GetItems() {
		kind, name := wire.ChangeName(change)
		switch {
		case change.GetRemoved() != "":
			delete(c.kinds[kind], name)
		case kind != "":
			if c.kinds[kind] == nil {
				c.kinds[kind] = make(map[string]*apiv1.Change)
			}
			c.kinds[kind][name] = change
		}
	}
	if news.GetComplete() {
		c.cursor, c.whole = news.GetCursor(), true
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Changed returns a channel that is closed when the copy changes next. Ask for it before you look at the copy, and no
// change escapes you.
func (c *Copy) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// Whole reports whether the copy has everything that there was at its cursor. It is false at first, and while the state
// comes anew after something was missed.
func (c *Copy) Whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole
}

// Cursor returns the place in the changes up to which the copy knows everything; nil at first.
func (c *Copy) Cursor() *apiv1.Cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cursor
}

// Agents returns the agents in the order of the lists.
func (c *Copy) Agents() []*apiv1.AgentView { return viewsOf(c, "agent", (*apiv1.Change).GetAgent) }

// Frameworks returns the frameworks in the order of the lists.
func (c *Copy) Frameworks() []*apiv1.FrameworkView {
	return viewsOf(c, "framework", (*apiv1.Change).GetFramework)
}

// Tasks returns the tasks that are not over, in the order of the lists.
func (c *Copy) Tasks() []*apiv1.TaskView { return viewsOf(c, "task", (*apiv1.Change).GetTask) }

// Offers returns the open offers in the order of the lists.
func (c *Copy) Offers() []*apiv1.OfferView { return viewsOf(c, "offer", (*apiv1.Change).GetOffer) }

// Roles returns the roles in the order of the lists.
func (c *Copy) Roles() []*apiv1.RoleView { return viewsOf(c, "role", (*apiv1.Change).GetRole) }

// Masters returns the masters in the order of the lists.
func (c *Copy) Masters() []*apiv1.MasterView { return viewsOf(c, "master", (*apiv1.Change).GetMaster) }

// Principals returns the principals in the order of the lists, if the watcher may see them.
func (c *Copy) Principals() []*apiv1.PrincipalView {
	return viewsOf(c, "principal", (*apiv1.Change).GetPrincipal)
}

// viewsOf returns the views of one kind, in the natural order of their names.
func viewsOf[V any](c *Copy, kind string, view func(*apiv1.Change) V) []V {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.kinds[kind]))
	for name := range c.kinds[kind] {
		names = append(names, name)
	}
	slices.SortFunc(names, words.CompareNatural)
	views := make([]V, len(names))
	for i, name := range names {
		views[i] = view(c.kinds[kind][name])
	}
	return views
}
