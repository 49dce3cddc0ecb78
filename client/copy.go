package client

import (
	"context"
	"iter"
	"maps"
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
	kinds   map[string]*things // by kind
	cursor  *apiv1.Cursor
	whole   bool
	changed chan struct{} // closed at the next change; nil: nobody waits
	news    []*News
}

// News is what has changed in a copy since somebody asked last. It holds at most one change of each thing.
type News struct {
	copy    *Copy
	anew    bool
	changes map[string]*apiv1.Change // by KIND/NAME; guarded by copy.mu
}

// News returns what will change in the copy from now on, and all that is there for a beginning. It is kept up to date
// until [News.End].
func (c *Copy) News() *News {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &News{copy: c, anew: true, changes: make(map[string]*apiv1.Change)}
	for kind, all := range c.kinds { // order: irrelevant because the result is a map
		for name, one := range all.by {
			n.changes[kind+"/"+name] = one.change
		}
	}
	c.news = append(c.news, n)
	return n
}

// Next returns the latest change of each thing that has changed since the last call, in no order. anew says that what
// there was before counts no more.
func (n *News) Next() (anew bool, changes []*apiv1.Change) {
	n.copy.mu.Lock()
	defer n.copy.mu.Unlock()
	changes = slices.Collect(maps.Values(n.changes))
	anew = n.anew
	n.anew = false
	clear(n.changes)
	return anew, changes
}

// End ends the news.
func (n *News) End() {
	n.copy.mu.Lock()
	defer n.copy.mu.Unlock()
	n.copy.news = slices.DeleteFunc(n.copy.news, func(other *News) bool { return other == n })
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
		c.kinds, c.whole = make(map[string]*things), false
		for _, n := range c.news {
			n.anew, n.changes = true, make(map[string]*apiv1.Change)
		}
	}
	for _, change := range news.GetItems() {
		kind, name := wire.ChangeName(change)
		of := c.kinds[kind]
		switch {
		case change.GetRemoved() != "":
			of.remove(name)
		case kind != "":
			if of == nil {
				of = &things{by: make(map[string]*thing)}
				c.kinds[kind] = of
			}
			of.put(name, change)
		}
		for _, n := range c.news {
			if kind != "" {
				n.changes[kind+"/"+name] = change
			}
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

// Get returns a thing as the watch told it last, such as the kind "task" and the name FRAMEWORK/TASK; nil: it is not there.
func (c *Copy) Get(kind, name string) *apiv1.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.kinds[kind]; of != nil && of.by[name] != nil {
		return of.by[name].change
	}
	return nil
}

// All returns the latest change of each thing, in no order. The copy must not be changed meanwhile.
func (c *Copy) All() iter.Seq[*apiv1.Change] {
	return func(yield func(*apiv1.Change) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range c.kinds {
			for _, one := range of.by {
				if !yield(one.change) {
					return
				}
			}
		}
	}
}

// viewsOf returns the views of one kind, in the natural order of their names.
func viewsOf[V any](c *Copy, kind string, view func(*apiv1.Change) V) []V {
	c.mu.Lock()
	defer c.mu.Unlock()
	sorted := c.kinds[kind].sorted()
	views := make([]V, len(sorted))
	for i, one := range sorted {
		views[i] = view(one.change)
	}
	return views
}

// things are all things of one kind. Their order is kept, because among many things few come and go between two looks.
type things struct {
	by    map[string]*thing
	order []*thing // those that were there at the last look, in the natural order of their names
	fresh []*thing // those that have come since
	gone  bool     // some have gone since
}

type thing struct {
	name   string
	change *apiv1.Change // nil: it has gone
}

func (t *things) put(name string, change *apiv1.Change) {
	if known := t.by[name]; known != nil {
		known.change = change
		return
	}
	one := &thing{name, change}
	t.by[name], t.fresh = one, append(t.fresh, one)
}

func (t *things) remove(name string) {
	if t == nil || t.by[name] == nil {
		return
	}
	t.by[name].change, t.gone = nil, true
	delete(t.by, name)
}

// sorted returns the things in the natural order of their names.
func (t *things) sorted() []*thing {
	if t == nil {
		return nil
	}
	if !t.gone && len(t.fresh) == 0 {
		return t.order
	}
	byName := func(a, b *thing) int { return words.CompareNatural(a.name, b.name) }
	isGone := func(one *thing) bool { return one.change == nil }
	fresh, old := slices.DeleteFunc(t.fresh, isGone), t.order
	slices.SortFunc(fresh, byName)
	merged := make([]*thing, 0, len(old)+len(fresh))
	for _, one := range fresh {
		before, _ := slices.BinarySearchFunc(old, one, byName)
		merged, old = append(append(merged, old[:before]...), one), old[before:]
	}
	merged = slices.DeleteFunc(append(merged, old...), isGone)
	t.order, t.fresh, t.gone = merged, nil, false
	return merged
}
