// Package witness watches a cluster in tests, over as many streams as it takes, and checks what it is told (R68): every
// event once and in order, or the gap that it was told of; the same event as every other witness; and at rest a copy
// that equals the lists.
package witness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/wire"
)

// Court hears the witnesses of one cluster, no two of which may be told different things. Set Broken before the first.
type Court struct {
	// Broken is called with each promise that does not hold, from any goroutine.
	Broken func(format string, args ...any)

	watching sync.WaitGroup
	mu       sync.Mutex
	events   map[wire.Cursor]*apiv1.Event
}

// Witness is one who watches.
type Witness struct {
	Name string
	Copy client.Copy

	court *Court
	all   bool // it has asked for every event
	once  bool // it hears each end of a task once, because it watches as programs do

	mu      sync.Mutex
	last    wire.Cursor // of the latest event
	ends    wire.Ends
	follows bool // the next event is the one behind the last
	whats   []string
	missed  []string
}

func (c *Court) witness(name string, request *apiv1.WatchRequest) *Witness {
	asked := &apiv1.WatchRequest{After: request.GetAfter(), EventsOnly: request.GetEventsOnly()}
	return &Witness{Name: name, court: c, all: proto.Equal(asked, request)}
}

// againAfter is how long a witness waits before it watches again.
const againAfter = 300 * time.Millisecond

// Stay has a witness watch by one stream after the other, each over a connection that connect makes, until ctx ends.
func (c *Court) Stay(ctx context.Context, name string, request *apiv1.WatchRequest, connect func() *grpc.ClientConn) *Witness {
	w := c.witness(name, request)
	c.watching.Go(func() {
		for pause.For(ctx, againAfter) {
			conn := connect()
			w.hear(ctx, conn, request)
			_ = conn.Close()
		}
	})
	return w
}

func (w *Witness) hear(ctx context.Context, conn *grpc.ClientConn, request *apiv1.WatchRequest) {
	stream, err := apiv1.NewWatchServiceClient(conn).Watch(ctx, request)
	for err == nil {
		var news *apiv1.WatchResponse
		if news, err = stream.Recv(); err != nil {
			return
		}
		w.take(news)
		if news.GetComplete() {
			request.After = news.GetCursor()
		} else if news.GetMissed() != "" {
			request.After = nil
		}
	}
}

// Move has a witness watch as programs do, at one leader after the other, until ctx ends.
func (c *Court) Move(ctx context.Context, name string, request *apiv1.WatchRequest, masters *client.Client) *Witness {
	w := c.witness(name, request)
	w.once = true
	c.watching.Go(func() {
		for news, err := range masters.Watch(ctx, request) {
			switch {
			case err == nil:
				w.take(news)
			case ctx.Err() == nil:
				c.Broken("%s: the watch has ended: %v", name, err)
			}
		}
	})
	return w
}

// Wait waits until no witness watches any more.
func (c *Court) Wait() { c.watching.Wait() }

// take takes in the next response of the watch.
func (w *Witness) take(news *apiv1.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if news.GetMissed() != "" {
		w.missed, w.follows = append(w.missed, news.GetMissed()), false
	}
	for _, item := range news.GetItems() {
		if item.GetEvent() != nil {
			w.hears(item.GetEvent())
		}
	}
	w.Copy.Take(news)
}

func (w *Witness) hears(event *apiv1.Event) {
	at := wire.CursorOf(event.GetCursor())
	switch {
	case at.Compare(w.last) <= 0:
		w.court.Broken("%s: after event %v it is told %v (%s %s) again", w.Name, w.last, at, event.GetKind(), event.GetWhat())
	case w.follows && w.all && (at.Term != w.last.Term || at.Number != w.last.Number+1):
		w.court.Broken("%s: after event %v comes %v (%s %s)", w.Name, w.last, at, event.GetKind(), event.GetWhat())
	}
	w.last, w.follows = at, true
	if event.GetKind() == "task" {
		if w.once && w.ends.Knows(event.GetName(), event.GetWhat(), at.Term) {
			w.court.Broken("%s: in term %v it is told once more that task %s is %s", w.Name, at.Term, event.GetName(), event.GetWhat())
		}
		w.ends.Note(event.GetName(), event.GetWhat(), at.Term)
	}
	w.whats = append(w.whats, event.GetKind()+" "+event.GetName()+" "+event.GetWhat())
	w.court.hears(w.Name, at, event)
}

// hears compares an event with what others were told under its cursor.
func (c *Court) hears(who string, at wire.Cursor, event *apiv1.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		c.events = make(map[wire.Cursor]*apiv1.Event)
	}
	if event.GetWhy() == wire.ToldAgainWhy {
		return // others may have heard that end from this leader alone (R65)
	}
	if said := c.events[at]; said != nil && !proto.Equal(said, event) {
		c.Broken("%s is told as event %v\n%v\nand another one\n%v", who, at, event, said)
	}
	c.events[at] = event
}

// Whats returns what the witness was told, each event as its kind, name and word.
func (w *Witness) Whats() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.whats)
}

// Missed returns the gaps that the witness was told of.
func (w *Witness) Missed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.missed)
}

// Differs compares the copy of a witness of everything with the leader's lists, but for figures of use and dominant
// shares, which are as at the last change. It returns nil if they are equal.
func (w *Witness) Differs(ctx context.Context, operator apiv1.OperatorServiceClient) error {
	if !w.Copy.Whole() {
		return fmt.Errorf("%s does not know the whole state", w.Name)
	}
	all := &apiv1.ListRequest{}
	err := cmp.Or(
		differ(ctx, "agent", w.Copy.Agents(), operator.ListAgents, all, func(a *apiv1.AgentView) {
			a.Usage, a.Revocable, a.Occupied, a.Free = nil, nil, nil, nil
		}),
		differ(ctx, "framework", w.Copy.Frameworks(), operator.ListFrameworks, all, func(f *apiv1.FrameworkView) {
			f.DominantShare = 0
		}),
		differ(ctx, "task", w.Copy.Tasks(), operator.ListTasks, &apiv1.ListTasksRequest{}, func(t *apiv1.TaskView) { t.Usage = nil }),
		differ(ctx, "offer", w.Copy.Offers(), operator.ListOffers, all, func(*apiv1.OfferView) {}),
		differ(ctx, "role", w.Copy.Roles(), operator.ListRoles, all, func(r *apiv1.RoleView) { r.DominantShare = 0 }),
	)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	return nil
}

// differ compares the views of a copy with those of a list, but for what forget takes out of both.
func differ[Request client.ForPage, View proto.Message, Response client.Page[View]](
	ctx context.Context, kind string, have []View,
	list func(context.Context, Request, ...grpc.CallOption) (Response, error), request Request, forget func(View),
) error {
	want, _, err := client.All(ctx, list, 0, request)
	if err != nil {
		return err
	}
	for i := range max(len(have), len(want)) {
		var pair [2]string
		for which, views := range [][]View{have, want} {
			pair[which] = "no more"
			if i < len(views) {
				view := proto.CloneOf(views[i])
				forget(view)
				pair[which] = prototext.MarshalOptions{}.Format(view)
			}
		}
		if pair[0] != pair[1] {
			return fmt.Errorf("the copy has the %s\n%s\nand the list\n%s", kind, pair[0], pair[1])
		}
	}
	return nil
}
