package master

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/view"
)

// This file reads lists page by page. The rows of a long list are noted when somebody asks for its first page, and put in
// order outside the leader's loop; whoever reads on finds the place of the next page in them. So a page costs what is
// on it, however long the list is. (Protocol rule R69.)

const (
	// listingsMax bounds the lists that are kept for whoever reads on. Beyond it the oldest is noted again when
	// somebody does.
	listingsMax = 8
	// listingFor is how long such a list is kept. Whoever reads on later gets one that is noted anew.
	listingFor = time.Minute
)

// listings keeps the rows of lists of which somebody has read a page and may read on. Rows have names only: what they
// show, and to whom, is read and decided for each page.
type listings struct {
	mu   sync.Mutex
	kept map[listed]keptListing
}

// listed says which rows a list has.
type listed struct {
	op        string
	framework api.FrameworkID
	agent     api.AgentID
	all       bool
}

type keptListing struct {
	rows any // a view.Listing
	at   time.Time
}

// find returns the rows of a list; nil: none are kept.
func (l *listings) find(of listed) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[of].rows
}

// keep keeps the rows of a list for a while.
func (l *listings) keep(of listed, rows any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = make(map[listed]keptListing)
	}
	at := time.Now()
	l.kept[of] = keptListing{rows, at}
	if len(l.kept) > listingsMax {
		delete(l.kept, slices.MinFunc(slices.Collect(maps.Keys(l.kept)), func(a, b listed) int { return l.kept[a].at.Compare(l.kept[b].at) }))
	}
	time.AfterFunc(listingFor, func() { l.drop(of, at) }) // which holds no rows: those that others have replaced are free
}

// drop drops the rows that were kept at that time, unless others have taken their place.
func (l *listings) drop(of listed, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept[of].at.Equal(at) {
		delete(l.kept, of)
	}
}

// noter notes the rows of a list.
type noter[V any] func(view.Cluster, view.Query) view.Listing[V]

// lookAs is how the leader's state is read in one step of its loop.
type lookAs func(read func(view.Cluster)) error

// lookFor returns how the leader's state is read for a caller.
func (d *leadership) lookFor(ctx context.Context, op string) lookAs {
	return func(read func(view.Cluster)) error {
		return d.ask(ctx, op, func(c view.Cluster, _ time.Time) { read(c) })
	}
}

// readPage reads a page of a list from the leader's state.
func readPage[V any](ctx context.Context, d *leadership, op string, query view.Query, list noter[V]) (view.Page[V], error) {
	return readRows(d, op, query, list, d.lookFor(ctx, op))
}

// readReported reads a page of a list of what agents report, and why something may be missing from it; nil: nothing is.
func readReported[V any](d *leadership, op string, query view.Query, list noter[V], look lookAs) (page view.Page[V], notYet *apiv1.Error, err error) {
	page, err = readRows(d, op, query, list, func(read func(view.Cluster)) error {
		return look(func(c view.Cluster) {
			if notYet == nil { // asked before the rows are read, so that nothing is missing unsaid
				notYet = wire.ErrorToProto(c.NotYet(op, "", query.Agent))
			}
			read(c)
		})
	})
	return page, notYet, err
}

// readList reads a page of a list from the leader's state. If the request accepts a stale list and this master follows,
// it reads the page from this master's registry, and returns the index of that.
func readList[V any](ctx context.Context, d *leadership, op string, r *apiv1.ListRequest, list noter[V]) (page view.Page[V], index uint64, err error) {
	if d.now.Load() == nil && r.GetStale() {
		state := d.raft.Registry()
		page, err = readRows(d, op, queryOf(r), list, func(read func(view.Cluster)) error {
			read(view.Cluster{Registry: state, Sees: guard.ScopeOf(ctx)})
			return nil
		})
		return page, state.Index, err
	}
	page, err = readPage(ctx, d, op, queryOf(r), list)
	return page, 0, err
}

// listRunning is ListTasks for this master's own use, while it leads.
func (d *leadership) listRunning(ctx context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
	const op = "master.dns"
	page, notYet, err := readReported(d, op, queryOf(r), view.TaskList, func(read func(view.Cluster)) error {
		return d.lookFor(ctx, op)(func(c view.Cluster) {
			c.Sees = rights.All()
			read(c)
		})
	})
	return &apiv1.ListTasksResponse{Items: wire.Each(page.Items, showTask), NextPageToken: page.Next, Incomplete: notYet}, err
}

// readRows reads a page of a list in as few looks as its length allows. A list that fits into one page is read at one
// moment.
func readRows[V any](d *leadership, op string, query view.Query, list noter[V], look lookAs) (page view.Page[V], err error) {
	of := listed{op, query.Framework, query.Agent, query.All}
	var rows view.Listing[V]
	if query.After != "" {
		rows, _ = d.listings.find(of).(view.Listing[V])
	}
	at, done := -1, false
	read := func(c view.Cluster) {
		if at < 0 {
			rows.Sort()
			at = rows.After(query.After)
		}
		at, done = rows.Read(c, &query, at, &page)
	}
	if rows == nil {
		err = look(func(c view.Cluster) {
			if rows = list(c, query); rows.Len() <= api.PageItemsMax {
				read(c)
			}
		})
		if err != nil {
			return page, err
		}
		if rows.Sort(); rows.Len() > api.PageItemsMax { // here the loop does not wait for it
			d.listings.keep(of, rows)
		}
	}
	for !done && err == nil {
		err = look(read)
	}
	return page, err
}
