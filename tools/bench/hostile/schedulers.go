package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// scheduler is a handwritten session of a scheduler.
type scheduler struct {
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[apiv1.SchedulerCalls, apiv1.SchedulerEvents]
	target  Target
	number  uint64
	session *apiv1.StoreSession
}

// newScheduler subscribes a scheduler; it returns nil if the master refused.
func newScheduler(ctx context.Context, target Target, name string) *scheduler {
	s := &scheduler{conn: target.connect(ctx), target: target}
	var err error
	if s.stream, err = apiv1.NewSchedulerServiceClient(s.conn).Session(ctx); err != nil {
		return nil
	}
	subscribe := &apiv1.Subscribe{Instance: name, Framework: &apiv1.Framework{Name: name, Roles: []string{Role}}}
	if !s.say(&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Subscribe{Subscribe: subscribe}},
		&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Last: true}}}) {
		return nil
	}
	for {
		events, err := s.stream.Recv()
		if err != nil {
			return nil
		}
		for _, event := range events.GetEvents() {
			if in := event.GetSubscribed(); in != nil {
				s.session = &apiv1.StoreSession{FrameworkId: in.GetFrameworkId(), Session: in.GetSession(), Instance: name}
				return s
			}
		}
	}
}

// say sends all calls in one message. It returns false when the stream has ended.
func (s *scheduler) say(calls ...*apiv1.SchedulerCall) bool {
	for _, call := range calls {
		s.number++
		call.Number = s.number
	}
	s.target.sent.Add(1)
	return s.stream.Send(&apiv1.SchedulerCalls{Calls: calls}) == nil
}

// listen reads everything that comes and ignores it.
func (s *scheduler) listen() {
	go func() {
		for {
			if _, err := s.stream.Recv(); err != nil {
				return
			}
		}
	}()
}

// calls makes n calls of one kind.
func calls(n int, one func(i int) *apiv1.SchedulerCall) []*apiv1.SchedulerCall {
	all := make([]*apiv1.SchedulerCall, n)
	for i := range all {
		all[i] = one(i)
	}
	return all
}

func beat(int) *apiv1.SchedulerCall {
	return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Heartbeat{Heartbeat: &apiv1.SchedulerHeartbeat{}}}
}

// deafScheduler sends heartbeats, each of which is answered, and reads nothing.
func deafScheduler(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "deaf")
	for s != nil && s.say(calls(4000, beat)...) {
	}
}

// asker asks for everything, and for things that nobody knows.
func asker(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "asker")
	if s == nil {
		return
	}
	s.listen()
	page := make([]*apiv1.UnsettledTask, 4000)
	for i := range page {
		page[i] = &apiv1.UnsettledTask{TaskId: fmt.Sprint("nobody-", i), AgentId: "agent-1"}
	}
	ask := func(i int) *apiv1.SchedulerCall {
		switch i % 3 {
		case 0:
			return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Reconcile{Reconcile: &apiv1.Reconcile{}}}
		case 1:
			return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Operations{Operations: &apiv1.ReconcileOperations{}}}
		}
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Kill{Kill: &apiv1.Kill{TaskId: fmt.Sprint("nobody-", i), AgentId: "agent-1"}}}
	}
	named := &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Reconcile{Reconcile: &apiv1.Reconcile{Tasks: page}}}
	for s.say(calls(4000, ask)...) && s.say(named) {
	}
}

// accepter answers offers that it does not have, and those that it has with empty tasks.
func accepter(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "accepter")
	if s == nil {
		return
	}
	s.listen()
	accept := func(i int) *apiv1.SchedulerCall {
		operation := &apiv1.Operation{Kind: apiv1.OperationKind_LAUNCH, Tasks: make([]*apiv1.Task, 4000)}
		for t := range operation.Tasks {
			operation.Tasks[t] = &apiv1.Task{}
		}
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{
			OfferIds: []string{fmt.Sprintf("offer-2-%d", i)}, Operations: []*apiv1.Operation{operation},
		}}}
	}
	for s.say(calls(15, accept)...) {
	}
}

// demanderShapes is how many shapes a demand has whose constraints together are a little less than is allowed: one that
// has more is refused before anything is compiled.
const demanderShapes = 50

// demander sends demands with new constraints each time, each as costly as possible.
func demander(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "demander")
	if s == nil {
		return
	}
	s.listen()
	for round := 0; ; round++ {
		demand := &apiv1.SetDemand{Role: Role}
		for i := range demanderShapes {
			demand.Shapes = append(demand.Shapes, &apiv1.Shape{Count: 1, Resources: []*apiv1.Resource{{Name: "cpus", Milli: 100}},
				Constraint: fmt.Sprintf(`id != "%d-%d"`, round, i) + strings.Repeat(` && attributes.?a.orValue("x") == "x"`, 30)})
		}
		if !s.say(&apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Demand{Demand: demand}}) {
			return
		}
	}
}

// crammer sends more calls than a message may have, and calls that list more than is allowed.
func crammer(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "crammer")
	if s == nil {
		return
	}
	s.listen()
	pages := calls(16, func(int) *apiv1.SchedulerCall {
		tasks := make([]*apiv1.UnsettledTask, 4000)
		for i := range tasks {
			tasks[i] = &apiv1.UnsettledTask{TaskId: "t"}
		}
		return &apiv1.SchedulerCall{Call: &apiv1.SchedulerCall_Unsettled{Unsettled: &apiv1.Unsettled{Tasks: tasks}}}
	})
	for range 8 {
		if !s.say(pages...) {
			return
		}
	}
	s.say(calls(200_000, beat)...)
}

// comer subscribes and leaves at once, again and again.
func comer(ctx context.Context, target Target) {
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		newScheduler(life, target, "comer")
		end()
	}
}

// hoarder writes to its store as fast as it can, and watches it without reading.
func hoarder(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "hoarder")
	if s == nil {
		return
	}
	s.listen()
	go func() {
		for s.say(beat(0)) {
			if !wait(ctx) {
				return
			}
		}
	}()
	stub := apiv1.NewStoreServiceClient(s.conn)
	for range 100 {
		_, _ = stub.Watch(ctx, &apiv1.StoreWatchRequest{Session: s.session})
	}
	var writers sync.WaitGroup
	for lane := range 32 {
		writers.Go(func() {
			for write := uint64(1); ctx.Err() == nil; write++ {
				target.sent.Add(1)
				_, err := stub.Write(ctx, &apiv1.StoreWriteRequest{Session: s.session, Writes: []*apiv1.StoreWrite{
					{Key: fmt.Sprint(lane % 8), Value: make([]byte, 200<<10), Write: write, Lane: uint32(lane)},
				}})
				if err != nil && !wait(ctx) {
					return
				}
			}
		})
	}
	writers.Wait()
}

// deafReader reads its store by many calls on some connections, but does not read the answers.
func deafReader(ctx context.Context, target Target) {
	s := newScheduler(ctx, target, "deaf-reader")
	if s == nil {
		return
	}
	s.listen()
	stub := apiv1.NewStoreServiceClient(s.conn)
	for write := range uint64(4) {
		put := &apiv1.StoreWrite{Key: fmt.Sprint(write), Value: make([]byte, 200<<10), Write: 1 + write}
		_, _ = stub.Write(ctx, &apiv1.StoreWriteRequest{Session: s.session, Writes: []*apiv1.StoreWrite{put}}) // an earlier life has stored it already
	}
	for range 4 {
		conn := target.connect(ctx)
		for range 200 {
			call, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, apiv1.StoreService_List_FullMethodName)
			if err != nil || call.SendMsg(&apiv1.StoreListRequest{Session: s.session}) != nil || call.CloseSend() != nil {
				break
			}
			target.sent.Add(1)
		}
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second && s.say(beat(0)); {
		if !wait(ctx) {
			return
		}
	}
}
