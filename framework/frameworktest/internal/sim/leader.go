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

	conns   core.Conn
	lines   map[core.Conn]line
	touched []line
	rounds  bool // a round is planned
	waker
	requests core.RequestID
	replies  map[core.RequestID]func(core.Reply)
	stalled  bool         // the loop does not run
	late     []core.Event // events that came meanwhile
}

// line is a stream of an agent or of a scheduler, with both ends.
type line interface {
	end() *lineEnd
	sendQueued() // what the leader has queued
	closed() core.Happening
}

// lineEnd is the leader's end of a line. What is queued is sent at the end of a round.
type lineEnd struct {
	stream  *stream
	leader  *leader
	conn    core.Conn // number at the leader; 0: the leader has not heard of it yet
	closing bool
	why     *api.Error
}

func (e *lineEnd) end() *lineEnd { return e }

func newLeader(w *World, name string, term api.Term, clock *timepiece) *leader {
	return &leader{
		world: w, name: name, term: term, clock: clock,
		lines: map[core.Conn]line{}, replies: map[core.RequestID]func(core.Reply){},
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
		for _, line := range l.touched {
			line.sendQueued()
			if end := line.end(); end.closing {
				end.closing = false
				end.stream.closeByServer(end.why)
			}
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
			if line, is := l.lines[e.Conn].(*schedulerLine); is {
				line.queued = append(line.queued, e.Event)
				l.touched = append(l.touched, line)
			}
		case core.CloseScheduler:
			l.closeLine(e.Conn, e.Err)
		case core.ToAgent:
			l.toAgent(e.Conn, agentEvent{e.Session, e.Event})
		case core.SendSecrets:
			opened := protocol.TaskSecrets{TaskRef: e.Task}
			for _, secret := range e.Secrets {
				opened.Values = append(opened.Values, protocol.SecretValue{ID: secret.ID, Value: protocol.Hidden(secret.Text)})
			}
			l.toAgent(e.Conn, agentEvent{e.Session, opened})
		case core.CloseAgent:
			l.closeLine(e.Conn, e.Err)
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
	if line, is := l.lines[conn].(*agentLine); is {
		line.queued = append(line.queued, event)
		l.touched = append(l.touched, line)
	}
}

// closeLine ends a stream behind what is queued.
func (l *leader) closeLine(conn core.Conn, why *api.Error) {
	if line := l.lines[conn]; line != nil {
		line.end().closing, line.end().why = true, why
		l.touched = append(l.touched, line)
	}
}

// hearsFirst reports whether this is the first that the leader hears on a line, which gets its number.
func (l *leader) hearsFirst(from line) bool {
	end := from.end()
	if end.conn != 0 {
		return false
	}
	l.conns++
	end.conn = l.conns
	l.lines[end.conn] = from
	return true
}

// loseLine is told when a line has ended at the leader.
func (l *leader) loseLine(of line) {
	if conn := of.end().conn; conn != 0 && l.lines[conn] == of {
		l.stepCore(of.closed())
		delete(l.lines, conn)
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
		if line := l.lines[conn]; line != nil {
			line.end().stream.closeByServer(err)
		}
	}
}

// agentEvent is an event with the session to which it belongs.
type agentEvent struct {
	session uint64
	event   protocol.AgentEvent
}

// agentLine is an agent's stream.
type agentLine struct {
	lineEnd
	daemon *daemon
	own    agentConn
	queued []agentEvent
	calls  []protocol.AgentCall // at the agent, until the end of its step
}

// sendQueued sends batches that each belong to one session.
func (line *agentLine) sendQueued() {
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
}

func (line *agentLine) closed() core.Happening { return core.AgentClosed{Conn: line.conn} }

// hear handles what the agent has sent.
func (line *agentLine) hear(calls []protocol.AgentCall) {
	l := line.leader
	if l.ended {
		return
	}
	if l.hearsFirst(line) {
		l.stepCore(core.AgentOpened{Conn: line.conn, First: calls[0]})
		calls = calls[1:]
	}
	if len(calls) > 0 {
		l.stepCore(core.AgentCalled{Conn: line.conn, Calls: calls})
	}
}

// schedulerLine is a scheduler's stream.
type schedulerLine struct {
	lineEnd
	scheduler *scheduler
	queued    []protocol.SchedulerEvent
}

func (line *schedulerLine) sendQueued() {
	if len(line.queued) > 0 {
		messages, err := wire.SchedulerEventBatches(line.leader.term, line.queued)
		line.queued = nil
		carry(line.stream, &line.stream.down, messages, err, func(message *apiv1.SchedulerEvents) (func(), error) {
			term, events, err := wire.SchedulerEventsFromProto(message)
			return func() { line.scheduler.hearEvents(line, term, events) }, err
		})
	}
}

func (line *schedulerLine) closed() core.Happening { return core.SchedulerClosed{Conn: line.conn} }

func (line *schedulerLine) hear(calls []protocol.NumberedCall) {
	l := line.leader
	if l.ended {
		return
	}
	if l.hearsFirst(line) {
		l.stepCore(core.SchedulerOpened{Conn: line.conn, By: rights.All(), Subscribe: calls[0].Call.(protocol.Subscribe)})
		calls = calls[1:]
	}
	if len(calls) > 0 {
		l.stepCore(core.SchedulerCalled{Conn: line.conn, Calls: calls})
	}
}
