package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/watching"
	"github.com/tenderhq/tender/master/view"
)

// This file has the sources of what watchers are told: the leader's core, and at a follower the leader's watch.

// watchLogs is what this master tells watchers. It outlives leaderships.
type watchLogs struct {
	config  *Config
	log     *zerolog.Logger
	raft    *raftlog.Log
	leading *leadership
	proof   *proof
	masters *masters

	events, views *watching.Log
	history       *history.History // what it keeps of the events on its disk; nil: noHistory says why there is none
	noHistory     *api.Error
	over          chan struct{} // closed when this master ends
	ends          sync.Once
}

const (
	// sourceRest is the least time between two looks of the leader's source, so that changes that follow each other are
	// told together.
	sourceRest = 50 * time.Millisecond
	// sourceBusyRest is the same for the source of views behind a look that found sourceBusy changes and more: what begins
	// and ends within it is shown once or not at all, which is most of what watchers cost a leader at full lives. Events are
	// told all the same.
	sourceBusyRest = time.Second
	sourceBusy     = 512
	// sourceRecordsMax bounds the changes that are told together, and the views that are read in one round of the
	// leader's loop, which waits meanwhile.
	sourceRecordsMax = 8192
	sourceViewsMax   = 512
	// sourceAgain is how long a source rests when it has failed, as while there is no leader.
	sourceAgain = 200 * time.Millisecond
	// listsEvery is the least time between two readings of the short lists, which are read whole: roles, masters,
	// principals, secrets and tokens.
	listsEvery = time.Second
)

// run runs the sources of both logs whenever somebody watches, until ctx ends.
func (w *watchLogs) run(ctx context.Context) {
	defer w.ends.Do(func() { close(w.over) })
	var sources sync.WaitGroup
	for _, views := range []bool{false, true} {
		log := w.events
		if views {
			log = w.views
		}
		sources.Go(func() {
			for ctx.Err() == nil {
				wanted, cancel := log.Wanted(ctx)
				if wanted == nil {
					return
				}
				w.feed(wanted, log, views)
				cancel()
				log.Drop()
			}
		})
	}
	<-ctx.Done()
	w.ends.Do(func() { close(w.over) })
	sources.Wait()
}

// feed keeps a log up to date, from one leader after the other, until ctx ends.
func (w *watchLogs) feed(ctx context.Context, log *watching.Log, views bool) {
	for ctx.Err() == nil {
		changed := w.leading.changed.wait()
		if l := w.leading.now.Load(); l != nil {
			w.feedFrom(ctx, l, log, views)
			continue
		}
		following, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-changed:
				stop()
			case <-following.Done():
			}
		}()
		err := w.followLeader(following, log, views)
		stop()
		if err != nil && ctx.Err() == nil {
			pause.For(ctx, sourceAgain)
		}
	}
}

// followLeader keeps a follower's log up to date by a watch at the leader, until that breaks.
func (w *watchLogs) followLeader(ctx context.Context, log *watching.Log, views bool) error {
	leader, address := w.leading.leader()
	if address == "" || leader == w.config.ID {
		return errors.New("nobody leads")
	}
	conn, err := w.proof.dialMaster(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	request := &apiv1.WatchRequest{EventsOnly: !views, Packed: !views}
	if after := log.Cursor(); !after.IsZero() && (!views || log.Whole()) {
		request.After = after.Proto()
	}
	stream, err := apiv1.NewWatchServiceClient(conn).Watch(ctx, request)
	if err != nil {
		return err
	}
	anew := ""
	if request.GetAfter() == nil {
		anew = "this master has begun to follow " + string(leader)
	}
	for {
		news, err := stream.Recv()
		if err == nil {
			err = log.Take(news, anew)
		}
		if err != nil {
			return err
		}
		anew = ""
	}
}

// endsTold returns a function that says which ends of tasks leaders of earlier terms have told, as far as this master has
// followed them or has it in its history. (Protocol rule R65.)
func (w *watchLogs) endsTold(term api.Term) func([]watching.End) map[string]bool {
	inLog := sync.OnceValue(w.events.Ends)
	return func(ends []watching.End) map[string]bool {
		told, others := make(map[string]bool), make(map[string]string)
		var since time.Time
		for _, end := range ends {
			if inLog().Knows(end.Task, end.What, term) {
				told[end.Task] = true
				continue
			}
			if others[end.Task] = end.What; since.IsZero() || end.At.Before(since) {
				since = end.At
			}
		}
		if w.history != nil && len(others) > 0 {
			maps.Copy(told, w.history.Ended(others, since.Add(-clocksApart)))
		}
		return told
	}
}

// clocksApart is how far an agent's clock may be ahead of a leader's.
const clocksApart = time.Minute

// feedFrom keeps a log up to date from this leader's core until the leadership or ctx ends.
func (w *watchLogs) feedFrom(ctx context.Context, l *leader, log *watching.Log, views bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.over():
			cancel()
		case <-ctx.Done():
		}
	}()
	f := &feeder{watches: w, leader: l, log: log, views: views, dirty: make(map[any]bool)}
	if views {
		l.changes.Hold(0)
		defer l.changes.Release()
	}
	for ctx.Err() == nil {
		f.run(ctx)
	}
}

// feeder turns the changes of this leader into entries of a log.
type feeder struct {
	watches *watchLogs
	leader  *leader
	log     *watching.Log
	views   bool
	place   uint64
	dirty   map[any]bool // what is to be read again, by the names that change.Record.Touches gives
	busy    bool         // a look since the last rest found many changes
	lists   bool         // the short lists are to be read again
	listed  time.Time    // when they were read last
}

// run begins where the log has come to in this term, or anew, and goes on until something is missed.
func (f *feeder) run(ctx context.Context) {
	stream := f.leader.changes
	place, number := stream.Head()
	had := f.log.Cursor()
	known := false
	if had.Term == stream.Term && (!f.views || f.log.Whole()) {
		f.place, known = stream.After(had.Number)
	}
	if !known {
		why := fmt.Sprintf("master %s leads since term %s; the last changes of the term before may be missing", stream.Leader, stream.Term)
		if had.Term == stream.Term {
			why = "changes came faster than they could be told"
		} else if !f.views {
			if first, all := stream.Begun(); all {
				place, number = first, 0
			}
		}
		f.place = place
		clear(f.dirty)
		f.log.Forget(wire.Cursor{Term: stream.Term, Number: number}, why)
		if f.views && f.readAll(ctx) != nil {
			return
		}
	}
	f.lists = f.views
	if f.views {
		stream.Hold(f.place)
	}
	for ctx.Err() == nil {
		more, err := f.step(ctx)
		if err != nil {
			return
		}
		if more {
			continue
		}
		if f.busy {
			pause.For(ctx, sourceBusyRest)
		} else {
			pause.For(ctx, sourceRest)
		}
		f.busy = false
		f.rest(ctx)
	}
}

// rest waits for the next change, or until the short lists are due.
func (f *feeder) rest(ctx context.Context) {
	timer := time.NewTimer(listsEvery)
	defer timer.Stop()
	tick := timer.C
	if !f.lists {
		tick = nil
	}
	select {
	case <-f.leader.changes.Wait(f.place):
	case <-tick:
	case <-ctx.Done():
	}
}

// step tells the next changes. more says that there are more already.
func (f *feeder) step(ctx context.Context) (more bool, err error) {
	if !f.views {
		records, next, known := f.leader.changes.Read(f.place, sourceRecordsMax)
		if !known {
			return false, errMissed
		}
		more = next-f.place == sourceRecordsMax
		f.place = next
		batch := records.Batch(false)
		f.log.Put(batch.Entries, batch.At, true)
		f.leader.changes.Logged(f.place)
		return more, nil
	}
	var records watching.Records
	var read []func() *apiv1.Change
	known := true
	err = f.leader.read(ctx, "watch", func(c view.Cluster, _ time.Time) {
		c.Sees = rights.All()
		var next uint64
		records, next, known = f.leader.changes.Read(f.place, sourceRecordsMax)
		if !known {
			return
		}
		records.Each(f.touch)
		f.busy = f.busy || next-f.place >= sourceBusy
		f.place = next
		read = f.read(c)
		head, _ := f.leader.changes.Head()
		more = head > f.place || len(f.dirty) > 0
	})
	if err != nil {
		return false, err
	}
	if !known {
		return false, errMissed
	}
	f.leader.changes.Hold(f.place)
	batch := records.Batch(true)
	for _, show := range read {
		batch.Attach(show())
	}
	if f.lists && !more && time.Since(f.listed) >= listsEvery {
		f.lists, f.listed = false, time.Now()
		for _, shown := range f.shortLists(ctx) {
			batch.Attach(shown)
		}
		batch.Entries = append(batch.Entries, f.log.Without(batch.Entries, batch.At, shortKinds...)...)
	}
	f.log.Put(batch.Entries, batch.At, !more)
	return more, nil
}

var errMissed = errors.New("what comes next is forgotten")

// touch notes what a record makes out of date.
func (f *feeder) touch(r *change.Record) {
	for name := range r.Touches() {
		f.dirty[name] = true
	}
	f.lists = true // roles sum up what all others have
}

// read reads some of what is out of date, in the leader's loop, and returns functions that make the messages outside it.
func (f *feeder) read(c view.Cluster) (shows []func() *apiv1.Change) {
	var shares allocator.Shares
	for name := range f.dirty { // order: irrelevant because each is a thing of its own
		if len(shows) == sourceViewsMax {
			break
		}
		delete(f.dirty, name)
		switch name := name.(type) {
		case api.AgentID:
			shows = append(shows, showing(c.OneAgent, name, "agent", string(name), func(v view.Agent) *apiv1.Change {
				return &apiv1.Change{View: &apiv1.Change_Agent{Agent: showAgent(v)}}
			}))
		case api.FrameworkID:
			if shares.Frameworks == nil {
				shares = c.Leader.Shares()
			}
			one := func(id api.FrameworkID) (view.Framework, bool) { return c.OneFramework(id, shares) }
			shows = append(shows, showing(one, name, "framework", string(name), func(v view.Framework) *apiv1.Change {
				return &apiv1.Change{View: &apiv1.Change_Framework{Framework: showFramework(v)}}
			}))
		case api.TaskRef:
			shows = append(shows, showing(c.OneTask, name, "task", name.String(), func(v view.Task) *apiv1.Change {
				return &apiv1.Change{View: &apiv1.Change_Task{Task: showTask(v)}}
			}))
		case api.OfferID:
			shows = append(shows, showing(c.OneOffer, name, "offer", string(name), func(v view.Offer) *apiv1.Change {
				return &apiv1.Change{View: &apiv1.Change_Offer{Offer: showOffer(v)}}
			}))
		}
	}
	return shows
}

// showing reads one thing and returns how it is shown, or that it is no more.
func showing[K, V any](one func(K) (V, bool), key K, kind, name string, show func(V) *apiv1.Change) func() *apiv1.Change {
	v, there := one(key)
	if !there {
		return func() *apiv1.Change { return &apiv1.Change{Removed: kind + "/" + name} }
	}
	return func() *apiv1.Change { return show(v) }
}

// readAll reads all agents, frameworks, tasks and offers. Changes meanwhile are told afterwards.
func (f *feeder) readAll(ctx context.Context) error {
	at := f.log.Cursor()
	put := func(changes []*apiv1.Change) {
		entries := make([]watching.Entry, len(changes))
		for i, one := range changes {
			entries[i] = watching.Changed(one, at)
		}
		f.log.Put(entries, at, false)
	}
	return errors.Join(
		readAllOf(ctx, f, view.AgentList, put, func(v view.Agent) *apiv1.Change {
			return &apiv1.Change{View: &apiv1.Change_Agent{Agent: showAgent(v)}}
		}),
		readAllOf(ctx, f, view.FrameworkList, put, func(v view.Framework) *apiv1.Change {
			return &apiv1.Change{View: &apiv1.Change_Framework{Framework: showFramework(v)}}
		}),
		readAllOf(ctx, f, view.TaskList, put, func(v view.Task) *apiv1.Change {
			return &apiv1.Change{View: &apiv1.Change_Task{Task: showTask(v)}}
		}),
		readAllOf(ctx, f, view.OfferList, put, func(v view.Offer) *apiv1.Change {
			return &apiv1.Change{View: &apiv1.Change_Offer{Offer: showOffer(v)}}
		}),
	)
}

// readAllOf reads a list of this leader, in pieces and in no order.
func readAllOf[V any](ctx context.Context, f *feeder, list noter[V], put func([]*apiv1.Change), show func(V) *apiv1.Change) error {
	look := func(read func(view.Cluster)) error {
		return f.leader.read(ctx, "watch", func(c view.Cluster, _ time.Time) {
			c.Sees = rights.All()
			read(c)
		})
	}
	query := view.Query{Limit: sourceViewsMax}
	var rows view.Listing[V]
	if err := look(func(c view.Cluster) { rows = list(c, query) }); err != nil {
		return err
	}
	for at := 0; at < rows.Len(); {
		var page view.Page[V]
		if err := look(func(c view.Cluster) { at, _ = rows.Read(c, &query, at, &page) }); err != nil {
			return err
		}
		put(wire.Each(page.Items, show))
	}
	return nil
}

// shortKinds are the kinds whose lists are short and are read whole.
var shortKinds = []string{"role", "master", "principal", "secret", "token"}

// shortLists returns the rows of the short lists.
func (f *feeder) shortLists(ctx context.Context) (all []*apiv1.Change) {
	w := f.watches
	put := func(changes []*apiv1.Change) { all = append(all, changes...) }
	_ = readAllOf(ctx, f, view.RoleList, put, func(v view.Role) *apiv1.Change {
		return &apiv1.Change{View: &apiv1.Change_Role{Role: showRole(v)}}
	})
	_ = readAllOf(ctx, f, view.SecretList, put, func(v view.Secret) *apiv1.Change {
		return &apiv1.Change{View: &apiv1.Change_Secret{Secret: showSecret(v)}}
	})
	for _, master := range w.masters.list(&apiv1.ListRequest{}).GetItems() {
		master.AppliedIndex = 0 // grows all the time
		all = append(all, &apiv1.Change{View: &apiv1.Change_Master{Master: master}})
	}
	for name, p := range w.raft.Principals() { // order: irrelevant because each is a thing of its own
		if p.Revoked.IsZero() {
			all = append(all, &apiv1.Change{View: &apiv1.Change_Principal{Principal: showPrincipal(name, p)}})
		}
	}
	if tokens, err := w.proof.registrar.ListTokens(ctx, &apiv1.ListTokensRequest{}); err == nil {
		for _, token := range tokens.GetItems() {
			all = append(all, &apiv1.Change{View: &apiv1.Change_Token{Token: token}})
		}
	}
	return all
}
