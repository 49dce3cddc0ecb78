package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/invariant"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
)

// leader is a shell around a leader's core: its loop, without goroutines.
type leader struct {
	world *World
	name  string
	term  api.Term
	core  *core.Core
	clock *timepiece
	ended bool

	conns      core.Conn
	agents     map[core.Conn]*agentLine
	schedulers map[core.Conn]*schedulerLine
	touched    []flusher
	rounds     bool // a round is planned
	waker
	requests core.RequestID
	replies  map[core.RequestID]func(core.Reply)
	stalled  bool         // the loop does not run
	late     []core.Event // events that came meanwhile
}

// flusher is the leader's end of a stream: what is queued is sent at the end of a round.
type flusher interface{ flush() }

func newLeader(w *World, name string, term api.Term, clock *timepiece) *leader {
	return &leader{
		world: w, name: name, term: term, clock: clock,
		agents: map[core.Conn]*agentLine{}, schedulers: map[core.Conn]*schedulerLine{}, replies: map[core.RequestID]func(core.Reply){},
	}
}

func (l *leader) readClock() time.Time { return l.clock.read(l.world) }

// stepCore passes an event to the core. If an invariant of the core fails, a promise is broken.
func (l *leader) stepCore(what core.Happening) {
	if l.ended {
		return
	}
	if l.stalled {
		l.late = append(l.late, core.Event{Came: l.readClock(), What: what})
		return
	}
	l.stepCame(what, l.readClock())
}

// stepCame passes an event to the core that came earlier than now.
func (l *leader) stepCame(what core.Happening, came time.Time) {
	if l.ended {
		return
	}
	defer l.catchPanic()
	if l.world.story != nil {
		l.world.tellStory(l.name, "< %s", describe(what))
	}
	l.countEvent(what)
	l.performEffects(l.core.Step(core.Event{At: l.readClock(), Came: came, What: what}))
	l.planRound()
}

func (l *leader) catchPanic() {
	evidence := recover()
	if evidence == nil {
		return
	}
	var rule invariant.Broken
	if err, is := evidence.(error); is && errors.As(err, &rule) {
		l.world.breakStory("the leader's core is broken: %v", rule.Evidence)
		return
	}
	panic(evidence)
}

// planRound plans the allocation that follows everything that happens at this moment.
func (l *leader) planRound() {
	if l.rounds {
		return
	}
	l.rounds = true
	l.world.planIn(0, func() {
		l.rounds = false
		if l.ended || l.stalled {
			return
		}
		defer l.catchPanic()
		l.performEffects(l.core.Allocate(l.readClock()))
		for _, end := range l.touched {
			end.flush()
		}
		l.touched = l.touched[:0]
		l.world.truth.booksHold(l)
		l.armWaker()
	})
}

func (l *leader) armWaker() {
	l.wakeAt(l.core.Wake(), l.clock, l.world, l.world.planIn, func() { l.stepCore(core.Woken{}) })
}

func (l *leader) performEffects(effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.ToScheduler:
			if line := l.schedulers[e.Conn]; line != nil {
				line.queued = append(line.queued, e.Event)
				l.touched = append(l.touched, line)
			}
		case core.CloseScheduler:
			if line := l.schedulers[e.Conn]; line != nil {
				line.closing, line.why = true, e.Err
				l.touched = append(l.touched, line)
			}
		case core.ToAgent:
			l.toAgent(e.Conn, agentEvent{e.Session, e.Event})
		case core.SendSecrets:
			opened := protocol.TaskSecrets{TaskRef: e.Task}
			for _, secret := range e.Secrets {
				opened.Values = append(opened.Values, protocol.SecretValue{ID: secret.ID, Value: protocol.Hidden(secret.Text)})
			}
			l.toAgent(e.Conn, agentEvent{e.Session, opened})
		case core.CloseAgent:
			if line := l.agents[e.Conn]; line != nil {
				line.closing, line.why = true, e.Err
				l.touched = append(l.touched, line)
			}
		case core.Propose:
			l.world.quorum.proposeCommand(l, e.Command)
		case core.Reply:
			l.hearReply(e)
		case core.Served: // only the metrics of a real master use this
		case core.Log:
			l.tellLog(e)
		}
	}
}

// toAgent queues an event for an agent.
func (l *leader) toAgent(conn core.Conn, event agentEvent) {
	if line := l.agents[conn]; line != nil {
		line.queued = append(line.queued, event)
		l.touched = append(l.touched, line)
	}
}

func (l *leader) tellLog(e core.Log) {
	if l.world.story == nil {
		return
	}
	text := e.Message
	for _, f := range e.Fields {
		text += fmt.Sprintf(" %s=%q", f.Name, f.Value)
	}
	l.world.tellStory(l.name, "%s", text)
}

// requestAction passes an operator's action to the core.
func (l *leader) requestAction(action core.Action, answer func(core.Reply)) {
	l.requests++
	l.replies[l.requests] = answer
	l.stepCore(core.Requested{ID: l.requests, Action: action, By: rights.All()})
}

func (l *leader) hearReply(e core.Reply) {
	answer := l.replies[e.ID]
	if answer == nil {
		l.world.breakStory("request %d was answered twice", e.ID)
		return
	}
	delete(l.replies, e.ID)
	if l.world.story != nil {
		l.world.tellStory(l.name, "answers an operator: %v %v", e.Answer, e.Err)
	}
	answer(e)
}

// endTerm closes every stream: the leader has learned that it no longer leads, or its process has ended.
func (l *leader) endTerm() {
	if l.ended {
		return
	}
	l.ended = true
	l.world.tellStory(l.name, "ends its leadership of term %s", l.term)
	if l.world.quorum.former == l {
		l.world.quorum.former = nil
	}
	err := api.E("session", api.NotLeader, l.name, errors.New("another one leads"))
	for conn := core.Conn(1); conn <= l.conns; conn++ { // in order, which a map would not have
		if line := l.agents[conn]; line != nil {
			line.stream.closeByServer(err)
		}
		if line := l.schedulers[conn]; line != nil {
			line.stream.closeByServer(err)
		}
	}
}

// agentEvent is an event with the session to which it belongs.
type agentEvent struct {
	session uint64
	event   protocol.AgentEvent
}

// agentLine is an agent's stream, with both ends.
type agentLine struct {
	stream *stream
	leader *leader
	conn   core.Conn // number at the leader; 0: the leader has not heard of it yet
	daemon *daemon
	own    agentConn

	queued  []agentEvent
	closing bool
	why     *api.Error
	calls   []protocol.AgentCall // at the agent, until the end of its step
}

// flush sends what the leader has queued, in batches that each belong to one session.
func (line *agentLine) flush() {
	for len(line.queued) > 0 {
		batch := protocol.AgentEvents{Term: line.leader.term, Session: line.queued[0].session}
		n := 0
		for n < len(line.queued) && line.queued[n].session == batch.Session {
			batch.Events = append(batch.Events, line.queued[n].event)
			n++
		}
		line.queued = line.queued[n:]
		messages, err := wire.AgentEventBatches(batch)
		carry(line.stream, &line.stream.down, messages, err, func(message *apiv1.AgentEvents) (func(), error) {
			heard, err := wire.AgentEventsFromProto(message)
			return func() { line.daemon.hearEvents(line, heard) }, err
		})
	}
	if line.closing {
		line.closing = false
		line.stream.closeByServer(line.why)
	}
}

// hear handles what the agent has sent.
func (line *agentLine) hear(calls []protocol.AgentCall) {
	l := line.leader
	if l.ended {
		return
	}
	if line.conn == 0 {
		l.conns++
		line.conn = l.conns
		l.agents[line.conn] = line
		l.stepCore(core.AgentOpened{Conn: line.conn, First: calls[0]})
		calls = calls[1:]
	}
	if len(calls) > 0 {
		l.stepCore(core.AgentCalled{Conn: line.conn, Calls: calls})
	}
}

func (line *agentLine) closedAtLeader() {
	if line.conn != 0 && line.leader.agents[line.conn] == line {
		line.leader.stepCore(core.AgentClosed{Conn: line.conn})
		delete(line.leader.agents, line.conn)
	}
}

// schedulerLine is a scheduler's stream, with both ends.
type schedulerLine struct {
	stream    *stream
	leader    *leader
	conn      core.Conn
	scheduler *scheduler

	queued  []protocol.SchedulerEvent
	closing bool
	why     *api.Error
}

func (line *schedulerLine) flush() {
	if len(line.queued) > 0 {
		messages, err := wire.SchedulerEventBatches(line.leader.term, line.queued)
		line.queued = nil
		carry(line.stream, &line.stream.down, messages, err, func(message *apiv1.SchedulerEvents) (func(), error) {
			term, events, err := wire.SchedulerEventsFromProto(message)
			return func() { line.scheduler.hearEvents(line, term, events) }, err
		})
	}
	if line.closing {
		line.closing = false
		line.stream.closeByServer(line.why)
	}
}

func (line *schedulerLine) hear(calls []protocol.NumberedCall) {
	l := line.leader
	if l.ended {
		return
	}
	if line.conn == 0 {
		l.conns++
		line.conn = l.conns
		l.schedulers[line.conn] = line
		l.stepCore(core.SchedulerOpened{Conn: line.conn, By: rights.All(), Subscribe: calls[0].Call.(protocol.Subscribe)})
		calls = calls[1:]
	}
	if len(calls) > 0 {
		l.stepCore(core.SchedulerCalled{Conn: line.conn, Calls: calls})
	}
}

func (line *schedulerLine) closedAtLeader() {
	if line.conn != 0 && line.leader.schedulers[line.conn] == line {
		line.leader.stepCore(core.SchedulerClosed{Conn: line.conn})
		delete(line.leader.schedulers, line.conn)
	}
}
