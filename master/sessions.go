package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/registry"
)

// A reader brings the calls of a stream into the loop, and says at the end that the stream is closed. A writer, which runs
// only while there is something to send, sends what the loop queues, in as few messages as fit. gRPC ends a stream only
// when its handler returns, so the reader runs beside the handler. A direct stream, as the thousands of agents have, can be
// ended from outside, so there the reader is the handler. (Protocol rule R85.)

type schedulerStream struct {
	*outbox.Queue[protocol.SchedulerEvent]
	by *intake.Sender
}

type agentStream struct {
	*outbox.Queue[agentEvent]
	by *intake.Sender
}

// agentEvent is an event with the session that it belongs to.
type agentEvent struct {
	session uint64
	event   protocol.AgentEvent
}

// messageToScheduler and messageToAgent report whether an event is a message, which is delivered at most once.
func messageToScheduler(event protocol.SchedulerEvent) bool {
	_, is := event.(protocol.MessageFramework)
	return is
}

func messageToAgent(event agentEvent) bool {
	_, is := event.event.(protocol.MessageToExecutor)
	return is
}

// schedulerService and agentService are two types because both have a method Session.
type (
	schedulerService struct {
		apiv1.UnimplementedSchedulerServiceServer
		leading *leadership
	}
	agentService struct {
		apiv1.UnimplementedAgentServiceServer
		leading *leadership
	}
)

// Session serves one scheduler.
func (s schedulerService) Session(stream grpc.BidiStreamingServer[apiv1.SchedulerCalls, apiv1.SchedulerEvents]) error {
	l, err := s.leading.mine("scheduler.session")
	if err != nil {
		return wire.Status(err)
	}
	conn := core.Conn(l.ids.Add(1))
	ctx, by := stream.Context(), intake.SenderOf(stream.Context())
	out := &schedulerStream{by: by}
	out.Queue = outbox.New(protocol.SchedulerEventBytes, messageToScheduler, outbox.Stream[protocol.SchedulerEvent]{
		Beside: l.leading.beside.Go, Send: func(slow *outbox.Patience, events []protocol.SchedulerEvent) (err error) {
			var batches []*apiv1.SchedulerEvents
			if !l.leading.intake.Desk.During(ctx, by, eventWeight*len(events), func() { batches, err = wire.SchedulerEventBatches(l.lead.Term, events) }) {
				return ctx.Err()
			}
			return l.sendAll(slow, len(batches), func(i int) error { return stream.Send(batches[i]) }, err)
		},
	})
	defer context.AfterFunc(l.serving, func() { out.Close(l.leading.notLeader("scheduler.session")) })()
	l.leading.beside.Go(func() { out.Close(l.readScheduler(conn, out, stream)) })
	return wire.Status(out.Wait(ctx))
}

// Session serves one agent.
func (s agentService) Session(stream grpc.BidiStreamingServer[apiv1.AgentCalls, apiv1.AgentEvents]) error {
	l, err := s.leading.awaitLead(stream.Context())
	if err != nil {
		return wire.Status(err)
	}
	conn := core.Conn(l.ids.Add(1))
	ctx, by := stream.Context(), intake.SenderOf(stream.Context())
	out := &agentStream{by: by}
	out.Queue = outbox.New(agentEventBytes, messageToAgent, outbox.Stream[agentEvent]{
		Beside: l.leading.beside.Go, HangUp: direct.HangUp(ctx), Send: func(slow *outbox.Patience, events []agentEvent) error {
			for len(events) > 0 {
				one, rest := sameSession(events)
				batch := protocol.AgentEvents{Term: l.lead.Term, Session: events[0].session, Events: one}
				var batches []*apiv1.AgentEvents
				var err error
				if !l.leading.intake.Desk.During(ctx, by, eventWeight*len(one), func() { batches, err = wire.AgentEventBatches(batch) }) {
					return ctx.Err()
				}
				if err := l.sendAll(slow, len(batches), func(i int) error { return stream.Send(batches[i]) }, err); err != nil {
					return err
				}
				events = rest
			}
			return nil
		},
	})
	defer context.AfterFunc(l.serving, func() { out.Close(l.leading.notLeader("agent.session")) })()
	defer context.AfterFunc(ctx, func() { direct.HangUp(ctx)(context.Cause(ctx)) })() // the guard has ended it, or the agent is gone
	out.Close(l.readAgent(conn, out, stream))
	return wire.Status(out.Wait(ctx))
}

func agentEventBytes(e agentEvent) int { return protocol.AgentEventBytes(e.event) }

// cutOff returns the reason that the core is given when a stream ends because its peer read too slowly; "" when it ends
// for another reason.
func cutOff(why error) string {
	if api.Is(why, api.Limit) {
		return tookTooLittle
	}
	return ""
}

// sendAll sends the batches. packErr says that an event did not fit in a message. Then only that event is left out,
// because a stream must not end because of something too large that another peer has made. The core lets no such event
// through. (Protocol rule R34.)
func (l *leader) sendAll(slow *outbox.Patience, batches int, send func(i int) error, packErr error) error {
	if packErr != nil {
		l.log.Warn().Err(packErr).Msg("dropped an event that is too large for a message")
	}
	for i := range batches {
		if err := slow.During(func() error { return send(i) }); err != nil {
			return err
		}
	}
	return nil
}

// sameSession splits off the first events that belong to the same session.
func sameSession(events []agentEvent) (one []protocol.AgentEvent, rest []agentEvent) {
	for i, e := range events {
		if e.session != events[0].session {
			return one, events[i:]
		}
		one = append(one, e.event)
	}
	return one, nil
}

// readScheduler brings a scheduler's calls into the loop until the stream ends. It returns the error that the writer
// should send to the scheduler.
func (l *leader) readScheduler(conn core.Conn, out *schedulerStream, stream grpc.BidiStreamingServer[apiv1.SchedulerCalls, apiv1.SchedulerEvents]) *api.Error {
	const op = "scheduler.session"
	ctx, opened, from := stream.Context(), false, out.by
	by := l.inbox.Front.Inlet(from)
	heard := firstCall(op, from, out.Close)
	defer func() {
		heard()
		if opened {
			by.PutLast(arrival{what: core.SchedulerClosed{Conn: conn, Why: cutOff(out.Why())}, at: time.Now()})
		}
	}()
	return intake.SchedulerCalls.ReadAll(stream, l.leading.intake.Desk, from, func(calls []protocol.NumberedCall, bytes int) *api.Error {
		l.leading.intake.Programs.Prepare(ctx, from, calls)
		if !opened && len(calls) > 0 {
			first, ok := calls[0].Call.(protocol.Subscribe)
			if !ok {
				return api.E(op, api.Invalid, "", errors.New("the first call must be Subscribe"))
			}
			heard()
			if wait, ok := from.PayForSession(ctx, intake.SubscribedSessions); !ok {
				return tooManySessions(op, wait)
			}
			opened = l.send(ctx, by, arrival{what: core.SchedulerOpened{Conn: conn, By: guard.ScopeOf(ctx), Subscribe: first}, scheduler: out, bytes: bytes})
			if !opened {
				return l.leading.notLeader(op)
			}
			calls = calls[1:]
		}
		if len(calls) > 0 && !l.send(ctx, by, arrival{what: core.SchedulerCalled{Conn: conn, Calls: calls}, bytes: bytes}) {
			return l.leading.notLeader(op)
		}
		return nil
	})
}

// readAgent does the same for an agent. From its first call until the end of its report, the agent holds one of the
// gate's places.
func (l *leader) readAgent(conn core.Conn, out *agentStream, stream grpc.BidiStreamingServer[apiv1.AgentCalls, apiv1.AgentEvents]) *api.Error {
	const op = "agent.session"
	ctx, opened, from := stream.Context(), false, out.by
	by := l.inbox.Agents.Inlet(from)
	done := func() {}
	leave, heard := done, firstCall(op, from, out.Close)
	defer func() {
		heard()
		if opened {
			by.PutLast(arrival{what: core.AgentClosed{Conn: conn, Why: cutOff(out.Why())}, at: time.Now()})
		}
		leave()
	}()
	return intake.AgentCalls.ReadAll(stream, l.leading.intake.Desk, from, func(calls []protocol.AgentCall, bytes int) *api.Error {
		if !opened && len(calls) > 0 {
			if err := l.leading.admitsAgent(guard.CallerOf(ctx), transport.SignedAt(ctx), calls[0]); err != nil {
				return err
			}
			heard()
			heard = done // what it needed is not kept as long as the stream
			if wait, ok := from.PayForSession(ctx, 1); !ok {
				return tooManySessions(op, wait)
			}
			place, entered := l.inbox.Gate.Enter(ctx, l.over())
			if !entered {
				return l.comeLater()
			}
			leave = place
			opened = l.send(ctx, by, arrival{what: core.AgentOpened{Conn: conn, First: calls[0]}, agent: out, bytes: bytes})
			if !opened {
				return l.leading.notLeader(op)
			}
			calls = calls[1:]
		}
		if len(calls) == 0 {
			return nil
		}
		arrived := arrival{what: core.AgentCalled{Conn: conn, Calls: calls}, bytes: bytes}
		if endsReport(calls) {
			arrived.taken, leave = leave, done // if it is not sent, the gate takes it back by itself
		}
		if !l.send(ctx, by, arrived) {
			return l.leading.notLeader(op)
		}
		return nil
	})
}

func tooManySessions(op string, wait time.Duration) *api.Error {
	wait = wait.Round(time.Second)
	return api.E(op, api.Unavailable, "", fmt.Errorf("very many sessions begin from this address; come back in %v", wait)).RetryIn(wait)
}

// eventWeight is roughly how many bytes the message of one event takes in memory.
const eventWeight = 256

// comeLater returns the error for an agent that got no place in time and should retry.
func (l *leader) comeLater() *api.Error {
	select {
	case <-l.over():
		return l.leading.notLeader("agent.session")
	default:
		return manyAgents("very many agents come back at once", l.config.ID)
	}
}

// manyAgents returns the error for an agent that has waited already; a place becomes free soon.
func manyAgents(why string, master api.MasterID) *api.Error {
	err := fmt.Errorf("%s; come back in %v", why, intake.ReturnRetry)
	return api.E("agent.session", api.Unavailable, master, err).RetryIn(intake.ReturnRetry)
}

// endsReport reports whether the calls contain the last page of the agent's report.
func endsReport(calls []protocol.AgentCall) bool {
	return slices.ContainsFunc(calls, func(call protocol.AgentCall) bool {
		page, is := call.(protocol.AgentReport)
		return is && page.Last
	})
}

// newAgentMax is how long after it has got its certificate an agent may register for the first time. It does so at
// once.
const newAgentMax = 24 * time.Hour

// admitsAgent refuses an agent whose first call is none that opens a session, or names another nonce than its certificate
// (R7). It also refuses one that the registry does not know and whose certificate was signed long ago. So an agent that was
// removed, or marked gone so long ago that it is forgotten, does not come back with an old certificate (R47). Signed is zero
// in a cluster without certificates.
func (d *leadership) admitsAgent(caller rights.Caller, signed time.Time, first protocol.AgentCall) *api.Error {
	const op = "agent.session"
	var nonce api.Nonce
	var id api.AgentID
	switch first := first.(type) {
	case protocol.RegisterAgent:
		nonce = first.Nonce
	case protocol.ReregisterAgent:
		nonce, id = first.Nonce, first.Agent.ID
	default:
		return api.E(op, api.Invalid, "", errors.New("the first call must be Register or Reregister"))
	}
	// A caller of another kind is one whose identity is not checked.
	if caller.Kind == rights.Agent && string(nonce) != caller.Name {
		return api.E(op, api.Denied, caller.Name, fmt.Errorf("its certificate is not that of the agent that says %q", nonce))
	}
	if signed.IsZero() || time.Since(signed) < newAgentMax {
		return nil
	}
	isNew := false
	d.raft.Read(func(s *registry.State) { isNew = s.IsNew(nonce, id) })
	if !isNew {
		return nil
	}
	return api.E(op, api.Denied, nonce, fmt.Errorf(
		"its certificate is of %s, and no such agent is known: it was removed; start it with an empty data folder and --join FILE, as a new one", signed.UTC().Format(time.RFC3339)))
}
