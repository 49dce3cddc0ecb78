package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/nearby"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/transport"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// leaderCallsMax and leaderBytesMax bound what waits for a master. One that takes so
	// little loses the stream; the next report says all that was queued.
	leaderCallsMax = 1 << 16
	leaderBytesMax = 64 << 20
	// messageSlackBytes is what gRPC may add to a message of the largest size.
	messageSlackBytes = 4 << 10
	// openTimeout bounds the opening of a stream; a master that accepts and says nothing
	// is left by the core's session timeout.
	openTimeout = 5 * time.Second
	// keepaliveTime: a silent master is left by the core's session timeout, which knows what was agreed;
	// this is for what is silent beyond all agreements.
	keepaliveTime = 30 * time.Second
)

var errNoAnswer = errors.New("no answer in time")

// leaderLink is one stream to a master, for the loop.
type leaderLink struct {
	conn    core.Conn
	address string
	out     *outbox[protocol.AgentCall]
	leave   func(why error)
}

// leaderSession is what the agent's parts know of the session with the leader.
type leaderSession struct {
	stream     *leaderLink                // the loop's only
	shown      atomic.Pointer[leaderLink] // the session's; nil between two
	registered atomic.Bool                // with some master, ever
	timeout    atomic.Int64               // as the leader told it last, in nanoseconds; 0 = none has
}

func (l *leaderLink) close(why string) {
	l.leave(api.E("agent.session", api.Unavailable, l.address, errors.New(why)))
}

// leaderCallBytes is what a call adds to memory while it waits. The pages of a report add
// nothing that counts: they come once, before all else, and hold what the core keeps anyway.
func leaderCallBytes(call protocol.AgentCall) int {
	if _, is := call.(protocol.AgentReport); is {
		return 0
	}
	return protocol.AgentCallBytes(call)
}

// seeker is where the leader is looked for, and the newest term that was heard.
type seeker struct {
	*lookout.Seeker
	term api.Term
	// cloned is when a master first refused this agent because another one with its ID
	// seems to be alive.
	cloned time.Time
	// elsewhere is since when only masters of another cluster have answered; zero: others did.
	elsewhere time.Time
}

// clonedPatience is how long that is no mistake: the machine may have been booted again so
// fast that the leader has not missed the old agent yet, for one session timeout (R7).
const clonedPatience = 5 * time.Second

// elsewherePatience is how long an agent that had a session goes on where only masters of another cluster answer: they may
// have its masters' addresses for a moment. Meanwhile each master that it knows was asked.
const elsewherePatience = 10 * time.Second

// onlyElsewhere says whether, for that long, nobody but masters of another cluster has answered. One of them may say which of
// them leads. A master that can't be reached, or knows of no leader, may be of the agent's own.
func (s *seeker) onlyElsewhere(err error) bool {
	other := protocol.OtherCluster("")
	switch {
	case errors.As(err, &other) && s.elsewhere.IsZero():
		s.elsewhere = time.Now()
	case errors.As(err, &other):
		return time.Since(s.elsewhere) >= elsewherePatience
	case errors.Is(err, lookout.ErrNotLeading) || wire.LeaderOf(err) != "":
	default:
		s.elsewhere = time.Time{}
	}
	return false
}

// seekLeader holds one session after another, with whoever leads.
func (a *Agent) seekLeader(ctx context.Context) {
	s := &seeker{Seeker: lookout.NewSeeker(a.config.Masters)}
	for ctx.Err() == nil {
		for a.round.Stuck() && ctx.Err() == nil { // who can't answer needs no session
			pause.For(ctx, time.Second)
		}
		address := s.Address()
		heard, err := a.holdSession(ctx, s, address)
		if ctx.Err() != nil {
			return
		}
		if heard {
			s.Found()
		}
		if a.isHopeless(s, err) {
			a.inbox.fail(api.E("agent.register", api.KindOf(err), address, a.withRemedy(err)))
			return
		}
		wait := s.Failed(err)
		if s.WorthSaying(err) {
			a.log.Info().Str("master", address).AnErr("why", err).Msg("no leader there; looking on")
		}
		pause.For(ctx, wait)
	}
}

// isHopeless says whether to give up: before the first session a refusal is a mistake in the configuration that a
// person should see at once, a clone's after some tries; later it may pass.
func (a *Agent) isHopeless(s *seeker, err error) bool {
	if elsewhere := s.onlyElsewhere(err); elsewhere || errors.Is(err, nearby.ErrReplaced) {
		return true // its cluster is no more
	}
	if a.leader.registered.Load() {
		return false
	}
	switch api.KindOf(err) {
	case api.Exists:
		if s.cloned.IsZero() {
			s.cloned = time.Now()
		}
		return time.Since(s.cloned) >= clonedPatience
	case api.Invalid, api.Denied, api.Unsupported:
		return true
	}
	return false
}

// holdSession holds one stream from its opening to its end. heard: it was the leader's.
func (a *Agent) holdSession(ctx context.Context, s *seeker, address string) (heard bool, err error) {
	dial, refused := a.dialer(), new(atomic.Bool)
	if s.LeaderOnly() {
		dial = a.holder().LeaderDialer(a.config.Dial, func() { refused.Store(true) })
	}
	var replaced atomic.Pointer[error] // gRPC keeps the words of what the dialer returns, and nothing else
	connection, err := a.dialMasterBy(wire.Once(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := a.config.Nearby.Dialer(dial, a.startAgain())(ctx, address)
		if errors.Is(err, nearby.ErrReplaced) {
			replaced.Store(&err)
		}
		return conn, err
	}), address)
	if err != nil {
		return false, api.E("agent.connect", api.Invalid, address, err)
	}
	opening, opened := context.WithTimeoutCause(ctx, openTimeout, errNoAnswer)
	defer opened()
	stream, err := wire.Open(ctx, opening, connection, apiv1.NewAgentServiceClient(connection).Session)
	switch why := replaced.Load(); {
	case err != nil && refused.Load():
		return false, lookout.ErrNotLeading
	case err != nil && why != nil:
		return false, *why
	}
	if err != nil {
		return false, wire.Error(err)
	}
	defer stream.Close()
	link := &leaderLink{
		conn: a.inbox.nextConn(), address: address, leave: stream.Leave,
		out: newOutbox(outboxLimits{leaderCallsMax, leaderBytesMax}, leaderCallBytes),
	}
	if !a.inbox.post(stream.Context(), item{what: core.LeaderOpened{Conn: link.conn}, leader: link}) {
		return false, ctx.Err()
	}
	a.leader.shown.Store(link)
	defer a.leader.shown.Store(nil)
	watch := lookout.New(lookout.Config{Own: address, Masters: s.Masters(), Term: s.term, Dial: a.dialMaster})
	var beside sync.WaitGroup
	beside.Go(func() { wire.Write(stream, link.out.take, a.packCalls) })
	beside.Go(func() {
		if moved := watch.Run(stream.Context()); moved != "" {
			a.log.Info().Str("master", address).Str("leader", moved).Msg("the leader was silent, and another one leads")
			stream.Leave(wire.NotLeader("agent.session", moved))
		}
	})
	err = stream.Read(func(message *apiv1.AgentEvents) error {
		batch, err := wire.AgentEventsFromProto(message)
		if err != nil {
			return err
		}
		watch.Heard(batch.Term)
		heard = a.noticed(s, batch, watch) || heard
		a.inbox.postEvent(stream.Context(), core.LeaderSaid{Conn: link.conn, Batch: batch})
		return nil // if it was not taken, the stream is over
	})
	stream.Close()
	beside.Wait()
	a.inbox.postEvent(ctx, core.LeaderClosed{Conn: link.conn, Removed: api.Is(err, api.Removed)})
	return heard, err
}

// withRemedy adds what to do to a refusal that names another cluster.
func (a *Agent) withRemedy(err error) error {
	if other := protocol.OtherCluster(""); errors.As(err, &other) {
		return fmt.Errorf("%w; if its own cluster has ended: %s", other, a.startAgain())
	}
	return err
}

// startAgain is what to do when another cluster has taken the place of the agent's own.
func (a *Agent) startAgain() string {
	return fmt.Sprintf("this agent's tasks and identity, in %s, are of the one that has ended; to join the new one start it with another --data-dir, or remove that folder first",
		a.config.DataDir)
}

// dialer reaches masters, and nobody else.
func (a *Agent) dialer() trust.Dial {
	return a.holder().Dialer(a.config.Dial, trust.Master)
}

func (a *Agent) dialMaster(address string) (*grpc.ClientConn, error) {
	return a.dialMasterBy(a.dialer(), address)
}

func (a *Agent) dialMasterBy(dial wire.Dialer, address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, dial,
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: openTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(api.MessageBytesMax+messageSlackBytes)),
		grpc.WithInitialWindowSize(wire.StreamWindowBytes),
		grpc.WithInitialConnWindowSize(wire.ConnWindowBytes),
	)
}

// noticed takes over what a master says of itself and of others; registered: it leads, and has taken this agent.
func (a *Agent) noticed(s *seeker, batch protocol.AgentEvents, watch *lookout.Lookout) (registered bool) {
	if s.term.Before(batch.Term) {
		s.term = batch.Term
	}
	for _, event := range batch.Events {
		switch e := event.(type) {
		case protocol.AgentRegistered:
			registered = true
			s.Learn(e.Masters)
			watch.Learn(e.HeartbeatInterval, s.Masters())
			if e.SessionTimeout > 0 {
				a.leader.timeout.Store(int64(e.SessionTimeout))
			}
		case protocol.AgentPong:
			s.Learn(e.Masters)
			s.Within(e.ReturnWithin)
			watch.Learn(0, s.Masters())
		case protocol.EndTickets:
			a.front.visitors.End(e.Principal, e.Until)
		default: // the others mean nothing here
		}
	}
	return registered
}

// packCalls makes messages of what gathers.
func (a *Agent) packCalls(calls []protocol.AgentCall) ([]*apiv1.AgentCalls, error) {
	batches, err := wire.AgentCallBatches(calls)
	if err != nil {
		a.log.Error().Err(err).Msg("a call to the master does not fit a message and was left out")
	}
	return batches, nil
}
