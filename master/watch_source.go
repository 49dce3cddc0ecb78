package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protowire"

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
	// sourceRecordsMax bounds the changes that are read and encoded together, sourceEntriesMax what is told together.
	sourceRecordsMax = 1024
	sourceEntriesMax = 8192
	// sourceViewsMax bounds the views that are read in one round of the leader's loop, which waits meanwhile.
	sourceViewsMax = 512
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
	f := &feeder{watches: w, leader: l, log: log, views: views}
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
	batch   watching.Batch
	read    rows      // what the last round in the leader's loop has read
	lists   bool      // the short lists are to be read again
	listed  time.Time // when they were read last
}

// rows are some that are shown: the leader's loop reads them, and messages of them are made outside it.
type rows struct {
	agents     []view.Agent
	frameworks []view.Framework
	tasks      []view.Task
	offers     []view.Offer
	gone       []change.Row
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
		from := f.place
		if f.look(ctx) != nil {
			return
		}
		if f.views && f.place-from >= sourceBusy {
			pause.For(ctx, sourceBusyRest)
		} else {
			pause.For(ctx, sourceRest)
		}
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

// look tells what has changed since the last look.
func (f *feeder) look(ctx context.Context) error {
	f.batch.Clear()
	head, _ := f.leader.changes.Head()
	for more := true; more; more = f.place < head {
		next, known := f.batch.Read(f.leader.changes, f.place, sourceRecordsMax, f.views)
		if !known {
			return errMissed
		}
		f.lists = f.lists || f.views && next > f.place // roles sum up what all others have
		if f.place = next; !f.views {
			f.batch.Tell(f.log, true)
			f.leader.changes.Logged(f.place)
		}
	}
	if !f.views {
		return nil
	}
	// The views are read behind the events, so that they are as new at least.
	for more := true; more; {
		err := f.leader.read(ctx, "watch", func(c view.Cluster, _ time.Time) { more = f.readStale(c) })
		if err != nil {
			return err
		}
		f.show()
		if len(f.batch.Entries) > sourceEntriesMax && more {
			f.batch.Tell(f.log, false)
		}
	}
	if f.lists && time.Since(f.listed) >= listsEvery {
		f.lists, f.listed = false, time.Now()
		f.batch.AttachLists(shortKinds, f.shortLists(ctx), f.log)
	}
	f.batch.Tell(f.log, true)
	f.leader.changes.Hold(f.place)
	return nil
}

var errMissed = errors.New("what comes next is forgotten")

// readStale reads some of what is out of date, in the leader's loop. It returns false when there is no more.
func (f *feeder) readStale(c view.Cluster) (more bool) {
	c.Sees = rights.All()
	var shares allocator.Shares
	for range sourceViewsMax {
		row, is := f.batch.NextStale()
		if !is {
			return false
		}
		var there bool
		switch row.Kind {
		case change.Agent:
			there = readRow(&f.read.agents, c.OneAgent, api.AgentID(row.Name))
		case change.Framework:
			if shares.Frameworks == nil {
				shares = c.Leader.Shares()
			}
			one := func(id api.FrameworkID) (view.Framework, bool) { return c.OneFramework(id, shares) }
			there = readRow(&f.read.frameworks, one, api.FrameworkID(row.Name))
		case change.Task:
			there = readRow(&f.read.tasks, c.OneTask, api.TaskRef{Framework: api.FrameworkID(row.Name), Task: api.TaskID(row.Within)})
		default:
			there = readRow(&f.read.offers, c.OneOffer, api.OfferID(row.Name))
		}
		if !there {
			f.read.gone = append(f.read.gone, row)
		}
	}
	return true
}

func readRow[K, V any](all *[]V, one func(K) (V, bool), key K) bool {
	v, there := one(key)
	if there {
		*all = append(*all, v)
	}
	return there
}

// show adds what was read to the batch.
func (f *feeder) show() {
	r := &f.read
	for _, v := range r.agents {
		f.batch.Attach(change.Row{Kind: change.Agent, Name: string(v.Agent.ID)}, agentChange(v))
	}
	for _, v := range r.frameworks {
		f.batch.Attach(change.Row{Kind: change.Framework, Name: string(v.Framework.ID)}, frameworkChange(v))
	}
	for _, v := range r.tasks {
		f.batch.Attach(change.Row{Kind: change.Task, Name: string(v.Framework), Within: string(v.Task.ID)}, taskChange(v))
	}
	for _, v := range r.offers {
		f.batch.Attach(change.Row{Kind: change.Offer, Name: string(v.Offer.ID)}, offerChange(v))
	}
	for _, row := range r.gone {
		f.batch.AttachGone(row, f.log)
	}
	clear(r.agents)
	clear(r.frameworks)
	clear(r.tasks)
	clear(r.offers)
	f.read = rows{r.agents[:0], r.frameworks[:0], r.tasks[:0], r.offers[:0], r.gone[:0]}
}

func agentChange(v view.Agent) *apiv1.Change {
	return &apiv1.Change{View: &apiv1.Change_Agent{Agent: showAgent(v)}}
}

func frameworkChange(v view.Framework) *apiv1.Change {
	return &apiv1.Change{View: &apiv1.Change_Framework{Framework: showFramework(v)}}
}

// taskChange and offerChange have the resources encoded, because there are many tasks and offers: the map of a Struct costs
// more than all else in them.

func taskChange(v view.Task) *apiv1.Change {
	shown := taskView(v)
	shown.ProtoReflect().SetUnknown(wire.AppendResources(nil, taskResources, v.Resources))
	return &apiv1.Change{View: &apiv1.Change_Task{Task: shown}}
}

func offerChange(v view.Offer) *apiv1.Change {
	shown := offerView(v)
	shown.ProtoReflect().SetUnknown(wire.AppendResources(nil, offerResources, v.Offer.Resources))
	return &apiv1.Change{View: &apiv1.Change_Offer{Offer: shown}}
}

// The fields TaskView.resources and OfferView.resources.
const (
	taskResources  protowire.Number = 13
	offerResources protowire.Number = 7
)

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
		readAllOf(ctx, f, view.AgentList, put, agentChange), readAllOf(ctx, f, view.FrameworkList, put, frameworkChange),
		readAllOf(ctx, f, view.TaskList, put, taskChange), readAllOf(ctx, f, view.OfferList, put, offerChange),
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
var shortKinds = []change.Kind{change.Role, change.Master, change.Principal, change.Secret, change.Token}

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
