package master_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// witness watches at one master, as client.Watch does, and checks that what it is told is in order.
type witness struct {
	t      *testing.T
	name   string
	copy   client.Copy
	last   *apiv1.Cursor // of the latest event
	whats  []string
	missed []string
	ended  chan struct{}
}

// watch begins to watch, by one stream after the other, until ctx ends.
func (h *house) watch(ctx context.Context, t *testing.T, name string, request *apiv1.WatchRequest, at func() string) *witness {
	w := &witness{t: t, name: name, ended: make(chan struct{})}
	request = proto.CloneOf(request)
	go func() {
		defer close(w.ended)
		for pause.For(ctx, 300*time.Millisecond) {
			conn := h.connect(at())
			w.hear(ctx, conn, request)
			_ = conn.Close()
		}
	}()
	return w
}

func (w *witness) hear(ctx context.Context, conn *grpc.ClientConn, request *apiv1.WatchRequest) {
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

func (w *witness) take(news *apiv1.WatchResponse) {
	if news.GetMissed() != "" {
		w.missed, w.last = append(w.missed, news.GetMissed()), nil
	}
	for _, item := range news.GetItems() {
		event := item.GetEvent()
		if event == nil {
			continue
		}
		at := event.GetCursor()
		if w.last != nil && (!proto.Equal(w.last.GetTerm(), at.GetTerm()) || at.GetNumber() != w.last.GetNumber()+1) {
			w.t.Errorf("%s: after event %v comes %v (%s %s)", w.name, w.last, at, event.GetKind(), event.GetWhat())
		}
		w.last = at
		w.whats = append(w.whats, event.GetKind()+" "+event.GetName()+" "+event.GetWhat())
	}
	w.copy.Take(news)
}

// agrees compares the copy with the leader's lists.
func (w *witness) agrees(operator apiv1.OperatorServiceClient) {
	w.t.Helper()
	ctx := w.t.Context()
	agents, err1 := operator.ListAgents(ctx, &apiv1.ListRequest{})
	frameworks, err2 := operator.ListFrameworks(ctx, &apiv1.ListRequest{})
	tasks, err3 := operator.ListTasks(ctx, &apiv1.ListTasksRequest{})
	offers, err4 := operator.ListOffers(ctx, &apiv1.ListRequest{})
	roles, err5 := operator.ListRoles(ctx, &apiv1.ListRequest{})
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for _, a := range slices.Concat(agents.Items, w.copy.Agents()) {
		a.Usage, a.Revocable, a.Occupied, a.Free = nil, nil, nil, nil // figures of use are as at the last change
	}
	for _, f := range slices.Concat(frameworks.Items, w.copy.Frameworks()) {
		f.DominantShare = 0
	}
	for _, r := range slices.Concat(roles.Items, w.copy.Roles()) {
		r.DominantShare = 0
	}
	for _, x := range slices.Concat(tasks.Items, w.copy.Tasks()) {
		x.Usage = nil
	}
	same(w, "agents", w.copy.Agents(), agents.Items)
	same(w, "frameworks", w.copy.Frameworks(), frameworks.Items)
	same(w, "tasks", w.copy.Tasks(), tasks.Items)
	same(w, "offers", w.copy.Offers(), offers.Items)
	same(w, "roles", w.copy.Roles(), roles.Items)
}

func same[M proto.Message](w *witness, kind string, have, want []M) {
	w.t.Helper()
	if !slices.EqualFunc(have, want, func(a, b M) bool { return proto.Equal(a, b) }) {
		w.t.Errorf("%s: its copy has the %s\n%v\nand the list\n%v", w.name, kind, have, want)
	}
}

// TestTheClusterIsWatched: watchers at the leader and at a follower see every change once and in order, their copies
// equal the lists at every rest, and when the leader changes they are told what they may have missed (R68).
func TestTheClusterIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		defer h.close()
		first := h.leader()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		others := slices.DeleteFunc(slices.Collect(func(yield func(*running) bool) {
			for _, r := range h.masters {
				if !yield(r) {
					return
				}
			}
		}), func(r *running) bool { return r == first })
		var leads atomic.Pointer[string]
		lead := func(r *running) { address := r.GRPCAddr(); leads.Store(&address) }
		lead(first)
		var witnesses []*witness
		for i, at := range others {
			witnesses = append(witnesses, h.watch(ctx, t, fmt.Sprint("follower ", i), &apiv1.WatchRequest{}, at.GRPCAddr))
		}
		witnesses = append(witnesses, h.watch(ctx, t, "leader", &apiv1.WatchRequest{}, func() string { return *leads.Load() }))
		only := h.watch(ctx, t, "events", &apiv1.WatchRequest{EventsOnly: true}, others[0].GRPCAddr)
		tasks := h.watch(ctx, t, "tasks", &apiv1.WatchRequest{Kinds: []string{"task"}, AgentId: "agent-1"}, others[1].GRPCAddr)
		<-time.After(2 * time.Second) // everybody has begun

		conn := h.connect(first.GRPCAddr())
		agent := newNode(t, conn, "n1")
		framework := newScheduler(t, conn, protocol.Subscribe{Framework: api.Framework{Name: "f"}, Instance: "i1"})
		offer := awaitEvent[protocol.Offers](framework).Offers[0]
		rest := func(what string) {
			t.Helper()
			<-time.After(3 * time.Second)
			synctest.Wait()
			leader := h.connect(*leads.Load())
			defer leader.Close()
			for _, w := range witnesses {
				w.agrees(apiv1.NewOperatorServiceClient(leader))
			}
			if t.Failed() {
				t.Fatalf("at rest: %s", what)
			}
		}
		task := api.Task{ID: "t1", Resources: api.Scalars(1, 100), Command: &api.Command{Argv: []string{"true"}}}
		framework.call(protocol.Accept{Offers: []api.OfferID{offer.ID}, Operations: []api.Operation{{Kind: api.OpLaunch, Tasks: []api.Task{task}}}})
		rest("a task is launched")
		operator := apiv1.NewOperatorServiceClient(conn)
		if _, err := operator.MarkAgent(ctx, &apiv1.MarkAgentRequest{AgentId: "agent-1", Action: apiv1.AgentAction_DEACTIVATE}); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.SetRole(ctx, &apiv1.SetRoleRequest{Role: "eng", Weight: proto.Float64(3)}); err != nil {
			t.Fatal(err)
		}
		rest("an agent is deactivated and a role set")
		for _, w := range append(witnesses, only) {
			for _, want := range []string{"agent agent-1 admitted", "framework framework-1 subscribed", "task framework-1/t1 launched", "agent agent-1 deactivated", "role eng set"} {
				if !slices.Contains(w.whats, want) {
					t.Errorf("%s was not told %q, but %q", w.name, want, w.whats)
				}
			}
		}
		if slices.ContainsFunc(tasks.whats, func(what string) bool { return !strings.HasPrefix(what, "task ") }) || len(tasks.whats) == 0 {
			t.Errorf("who watches tasks is told %q", tasks.whats)
		}

		agent.stop()
		framework.stop()
		_ = conn.Close()
		h.stop(first.ID())
		lead(h.leader())
		rest("another master leads")
		for _, w := range append(witnesses[:2:2], only) {
			if len(w.missed) == 0 {
				t.Errorf("%s was not told that it may have missed the last changes of the leader that is gone", w.name)
			}
			if !slices.ContainsFunc(w.whats, func(what string) bool { return strings.HasPrefix(what, "election ") }) && w == only {
				t.Errorf("%s was not told of the election, but %q", w.name, w.whats)
			}
		}
		cancel()
		for _, w := range append(witnesses, only, tasks) {
			<-w.ended
		}
	})
}
