package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/lookout"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/watchdog"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// leaderCallsMax and leaderBytesMax limit what waits for a master. A master that reads too slowly loses the stream;
	// the next report contains all that was queued.
	leaderCallsMax = 1 << 16
	leaderBytesMax = 64 << 20
	// messageSlackBytes is what gRPC may add to a message of the largest size.
	messageSlackBytes = 4 << 10
	// openTimeout limits the opening of a stream. A master that accepts and then says nothing is left by the core's
	// session timeout.
	openTimeout = 5 * time.Second
)

var errNoAnswer = errors.New("no answer in time")

// leaderLink is one stream to a master, as the loop has it.
type leaderLink struct {
	conn    core.Conn
	address string
	out     *outbox[protocol.AgentCall]
	leave   func(why error)
}

// leaderSession is the session with the leading master: it finds that one, holds a stream to it, and sends what the core
// has for it.
type leaderSession struct {
	config   *Config
	log      zerolog.Logger
	folder   *dataFolder
	inbox    *inbox
	metrics  *metrics
	visitors *visitors.Visitors
	round    *watchdog.Loop // an agent whose loop is stuck needs no session

	stream     *leaderLink                // the loop's goroutine only
	shown      atomic.Pointer[leaderLink] // the stream of the session; nil between two sessions
	registered atomic.Bool                // some master has once registered this agent
	timeout    atomic.Int64               // the session timeout that the leader told last, in nanoseconds; 0 = none has
}

func (l *leaderLink) close(why string) {
	l.leave(api.E("agent.session", api.Unavailable, l.address, errors.New(why)))
}

// leaderCallBytes returns what a call adds to memory while it waits. The pages of a report count as nothing: they come
// once, before everything else, and hold what the core keeps anyway.
func leaderCallBytes(call protocol.AgentCall) int {
	if _, is := call.(protocol.AgentReport); is {
		return 0
	}
	return protocol.AgentCallBytes(call)
}

// seeker looks for the leader, and remembers the newest term that a master told.
type seeker struct {
	*lookout.Seeker
	term api.Term
	// cloned is when a master first refused this agent because another agent with its ID seems to be alive.
	cloned time.Time
	// elsewhere is since when only masters of another cluster have answered; zero: others did.
	elsewhere time.Time
}

// clonedPatience is how long such a refusal may pass by itself. The machine may have booted so fast that the leader has
// not noticed the end of the old agent, which takes one session timeout (R7).
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

// seek holds one session after another, each with the master that leads.
func (l *leaderSession) seek(ctx context.Context) {
	s := &seeker{Seeker: lookout.NewSeeker(l.config.Masters)}
	for ctx.Err() == nil {
		for l.round.Stuck() && ctx.Err() == nil { // an agent that can't answer needs no session
			pause.For(ctx, time.Second)
		}
		address := s.Address()
		heard, err := l.hold(ctx, s, address)
		if ctx.Err() != nil {
			return
		}
		if heard {
			s.Found()
		}
		if l.isHopeless(s, err) {
			l.inbox.fail(api.E("agent.register", api.KindOf(err), address, l.withRemedy(err)))
			return
		}
		wait := s.Failed(err)
		if s.WorthSaying(err) {
			l.log.Info().Str("master", address).AnErr("why", err).Msg("no leader at this address; trying the next one")
		}
		pause.For(ctx, wait)
	}
}

// isHopeless says whether to give up. Before the first session a refusal is a mistake in the configuration that a
// person should see at once; a refusal as a clone is one only after some time. After the first session it may pass by
// itself.
func (l *leaderSession) isHopeless(s *seeker, err error) bool {
	if elsewhere := s.onlyElsewhere(err); elsewhere || errors.Is(err, nearby.ErrReplaced) {
		return true // the agent's cluster does not exist any more
	}
	if l.registered.Load() {
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

// hold holds one stream from its opening to its end. heard means that the master was the leader.
func (l *leaderSession) hold(ctx context.Context, s *seeker, address string) (heard bool, err error) {
	stream, err := l.open(ctx, s, address)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	link := &leaderLink{
		conn: l.inbox.nextConn(), address: address, leave: stream.Leave,
		out: newOutbox(outboxLimits{leaderCallsMax, leaderBytesMax}, leaderCallBytes),
	}
	if !l.inbox.post(stream.Context(), item{what: core.LeaderOpened{Conn: link.conn}, leader: link}) {
		return false, ctx.Err()
	}
	l.shown.Store(link)
	defer l.shown.Store(nil)
	watch := lookout.New(lookout.Config{Own: address, Masters: s.Masters(), Term: s.term, Dial: l.dialMaster})
	var beside sync.WaitGroup
	beside.Go(func() { wire.Write(stream, link.out.take, l.packCalls) })
	beside.Go(func() {
		if moved := watch.Run(stream.Context()); moved != "" {
			l.log.Info().Str("master", address).Str("leader", moved).Msg("the leader was silent, and another one leads")
			stream.Leave(wire.NotLeader("agent.session", moved))
		}
	})
	err = stream.Read(func(message *apiv1.AgentEvents) error {
		batch, err := wire.AgentEventsFromProto(message)
		if err != nil {
			return err
		}
		watch.Heard(batch.Term)
		heard = l.noticed(s, batch, watch) || heard
		l.inbox.postEvent(stream.Context(), core.LeaderSaid{Conn: link.conn, Batch: batch})
		return nil // if it was not taken, the stream has ended
	})
	stream.Close()
	beside.Wait()
	l.inbox.postEvent(ctx, core.LeaderClosed{Conn: link.conn, Removed: api.Is(err, api.Removed)})
	return heard, err
}

// open opens a stream to a master.
func (l *leaderSession) open(ctx context.Context, s *seeker, address string) (*wire.Link[apiv1.AgentCalls, apiv1.AgentEvents], error) {
	dial, refused := l.dialer(), false
	if s.LeaderOnly() {
		dial = l.folder.holder().LeaderDialer(l.config.Dial, func() { refused = true })
	}
	dial = l.config.Nearby.Dialer(dial, l.startAgain())
	opening, opened := context.WithTimeoutCause(ctx, openTimeout, errNoAnswer)
	defer opened()
	stream, err := wire.Open(ctx, opening, nil, func(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[apiv1.AgentCalls, apiv1.AgentEvents], error) {
		return direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, dial, address, api.MessageBytesMax+messageSlackBytes)
	})
	switch {
	case err == nil:
		return stream, nil
	case refused:
		return nil, lookout.ErrNotLeading
	case errors.Is(err, nearby.ErrReplaced):
		return nil, err
	}
	return nil, wire.Error(err)
}

// withRemedy adds what to do to a refusal that names another cluster.
func (l *leaderSession) withRemedy(err error) error {
	if other := protocol.OtherCluster(""); errors.As(err, &other) {
		return fmt.Errorf("%w; if its own cluster has ended: %s", other, l.startAgain())
	}
	return err
}

// startAgain says what a person can do when another cluster has taken the place of the agent's own.
func (l *leaderSession) startAgain() string {
	return fmt.Sprintf("this agent's tasks and identity, in %s, are of the one that has ended; to join the new one start it with another --data-dir, or remove that folder first",
		l.config.DataDir)
}

// dialer returns a dialer that connects to masters and refuses everybody else.
func (l *leaderSession) dialer() trust.Dial {
	return l.folder.holder().Dialer(l.config.Dial, trust.Master)
}

// dialMaster prepares a connection to a master for calls.
func (l *leaderSession) dialMaster(address string) (*grpc.ClientConn, error) {
	return transport.Connect(address, l.dialer())
}

// noticed notes what a master says about itself and others. registered means that it leads and has registered this
// agent.
func (l *leaderSession) noticed(s *seeker, batch protocol.AgentEvents, watch *lookout.Lookout) (registered bool) {
	if s.term.Before(batch.Term) {
		s.term = batch.Term
	}
	for _, event := range batch.Events {
		switch e := event.(type) {
		case protocol.AgentRegistered:
			registered = true
			l.visitors.BeginTelling()
			s.Learn(e.Masters)
			l.beats(watch, s, e.HeartbeatInterval, e.SessionTimeout)
		case protocol.AgentPong:
			s.Learn(e.Masters)
			s.Within(e.ReturnWithin)
			l.beats(watch, s, e.HeartbeatInterval, e.SessionTimeout)
		case protocol.PrincipalChanged:
			l.visitors.End(e.Principal, e.Until)
			l.visitors.LetView(e.Principal, e.Views)
			if e.Revoked {
				l.visitors.Revoke(e.Principal, e.Until)
			}
		case protocol.Reported:
			l.visitors.EndTelling()
		default: // the others mean nothing here
		}
	}
	return registered
}

// beats notes how often the leader is to be heard, and after what silence the session is over; 0: as before.
func (l *leaderSession) beats(watch *lookout.Lookout, s *seeker, interval, timeout time.Duration) {
	watch.Learn(interval, s.Masters())
	if timeout > 0 {
		l.timeout.Store(int64(timeout))
	}
}

// packCalls packs the calls that are queued into messages.
func (l *leaderSession) packCalls(calls []protocol.AgentCall) ([]*apiv1.AgentCalls, error) {
	batches, err := wire.AgentCallBatches(calls)
	if err != nil {
		l.log.Error().Err(err).Msg("dropped a call to the master that is too large for a message")
	}
	return batches, nil
}

func (l *leaderSession) send(e core.ToLeader) {
	link := l.stream
	if link == nil || link.conn != e.Conn {
		return
	}
	if _, is := e.Call.(protocol.AgentReport); is {
		l.registered.Store(true)
	}
	if message, is := e.Call.(protocol.MessageFromExecutor); is {
		if !link.out.putSpare(message) {
			l.metrics.dropped.Add(1)
		}
		return
	}
	if !link.out.put(e.Call) {
		link.close("the master takes nothing any more")
	}
}

// longestRound returns how long a round of the loop may take: three times the session timeout that the leader told
// last.
func (l *leaderSession) longestRound() time.Duration {
	if told := time.Duration(l.timeout.Load()); told > 0 {
		return 3 * told
	}
	return 3 * sessionTimeoutDefault
}

// sessionTimeoutDefault holds until a leader has told another one.
const sessionTimeoutDefault = 5 * time.Second
