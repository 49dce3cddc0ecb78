package core

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/registry"
)

const (
	// earlyCallsMax bounds the calls that wait for the session to open: a scheduler that
	// sends more before it is answered loses its stream (Limit).
	earlyCallsMax = 4096
	// unsettledTasksMax bounds the tasks that one session asks for; beyond it the stream
	// is closed (Limit).
	unsettledTasksMax = 1_000_000
)

// session is a scheduler's stream. It is active once its framework is set.
type session struct {
	conn      Conn
	principal string
	subscribe protocol.Subscribe
	framework *framework
	number    uint64 // in the registry (R5)
	last      uint64 // number of the last call (R3)
	seen      time.Time
	clock     *deadline
	early     []protocol.NumberedCall
	waiting   bool   // told so (R6)
	masters   uint64 // the change of masters that it was told last

	refusedAt time.Time // when counting began
	refusals  int       // calls since then

	owed    questions
	walks   [walks]cursor
	owes    bool // is among those who are owed
	turn    time.Time
	budget  int                        // of events left in this turn
	asked   int                        // unsettled tasks so far
	absent  map[api.TaskID]api.AgentID // unsettled, and their agent ("" = any) is not back
	lost    map[api.TaskID]api.AgentID // unsettled, and the registry does not know their agent (R37)
	waits   map[api.TaskID]*acceptance // tasks of accepts that wait for the registry (R26)
	changes int                        // of its framework, on their way to the quorum
	asking  int                        // accepts that the registry was asked about
	line    []*acceptance              // accepts that wait for that
	allIn   bool
	settled bool
}

func (c *Core) schedulerOpened(event SchedulerOpened) {
	s := &session{conn: event.Conn, principal: event.Principal, subscribe: event.Subscribe, seen: c.now, absent: make(map[api.TaskID]api.AgentID),
		waits: make(map[api.TaskID]*acceptance)}
	s.subscribe.Framework.Principal = event.Principal
	s.clock = newDeadline(sessionSilent{s})
	c.sessions[s.conn] = s
	c.deadlines.set(s.clock, c.now.Add(c.config.SessionTimeout))
	if kind, err := c.checkSubscribe(&s.subscribe); err != nil {
		if kind == api.Unsupported {
			c.frameworkVersionRefused(s, err)
		}
		c.refuseSession(s, api.E("framework.subscribe", kind, who(s.subscribe.Framework), err))
		return
	}
	c.seekSession(s)
}

// frameworkVersionRefused is shown with the framework, if it is one that is known.
func (c *Core) frameworkVersionRefused(s *session, err error) {
	c.versionRefused("framework "+who(s.subscribe.Framework), err.Error())
	if fw := c.frameworks[s.subscribe.Framework.ID]; fw != nil && fw.session == nil {
		fw.refused = err.Error()
	}
}

// who names a framework for people, with whatever it has.
func who(info api.Framework) string {
	if info.ID != "" {
		return string(info.ID)
	}
	return info.Name
}

// subscribed goes on when the registry has answered.
func (c *Core) subscribed(s *session, result registry.Result) {
	c.seekDone(s)
	open := c.sessions[s.conn] == s
	if result.Err != nil {
		if open {
			c.refuseSession(s, api.E("framework.subscribe", result.Err.Kind, who(s.subscribe.Framework), result.Err.Err))
		}
		c.nextStandby(s.subscribe.Framework.Name)
		return
	}
	fw := c.frameworks[result.Framework]
	if old := fw.session; old != nil {
		c.fence(fw, old)
	}
	if !open { // taken over by someone who has left again
		c.goAway(fw, "its stream broke while it subscribed")
		c.describeToPolicy(fw)
		c.keepPlace(fw, s.seen)
		return
	}
	c.activate(fw, s, result.Session)
}

// fence closes the stream of the instance that was active.
func (c *Core) fence(fw *framework, old *session) {
	c.rescindAll(fw.offers, "another instance has taken over")
	c.endSession(old, api.E("framework.session", api.Fenced, fw.id, errors.New("another instance of the framework has subscribed")))
	fw.session = nil
}

// activate makes the session the one that is offered and told.
func (c *Core) activate(fw *framework, s *session, number uint64) {
	s.framework, s.number = fw, number
	fw.session, fw.latest, fw.since, fw.why, fw.refused = s, s, c.now, "", ""
	c.deadlines.clear(fw.failover)
	c.deadlines.clear(fw.turn)
	s.masters = c.mastersAt
	c.tell(fw, protocol.Subscribed{
		Cluster:           c.registry.Cluster,
		Framework:         fw.id,
		Session:           number,
		HeartbeatInterval: c.config.HeartbeatInterval,
		SessionTimeout:    c.config.SessionTimeout,
		Master:            c.config.Master,
		Masters:           c.masters(),
	})
	c.info("framework subscribed", field("framework", fw.id), field("name", fw.info.Name), field("session", fmt.Sprint(number)))
	c.resetDemand(fw, s.subscribe.Instance)
	c.describeToPolicy(fw)
	c.startSuppressed(fw, s.subscribe.Suppressed)
	if len(fw.tasks) > 0 {
		c.oweAll(s, walkStart)
	}
	c.askFrameworkToLeave(fw)
	early := s.early
	s.early = nil
	c.calls(s, early)
}

func (c *Core) schedulerCalled(event SchedulerCalled) {
	s := c.sessions[event.Conn]
	if s == nil {
		return // closed: whatever it still says is too late
	}
	s.seen = c.now
	if s.framework != nil {
		c.calls(s, event.Calls)
		return
	}
	for _, call := range event.Calls {
		if _, beat := call.Call.(protocol.SchedulerHeartbeat); beat {
			c.emit(ToScheduler{Conn: s.conn, Event: protocol.MasterHeartbeat{Masters: c.mastersNews(&s.masters)}})
		} else {
			s.early = append(s.early, call)
		}
	}
	if len(s.early) > earlyCallsMax {
		c.refuseSession(s, api.E("framework.subscribe", api.Limit, who(s.subscribe.Framework),
			fmt.Errorf("more than %d calls before the session is open", earlyCallsMax)))
	}
}

// calls steps the calls of an active session; a repeated number is ignored (R3).
func (c *Core) calls(s *session, calls []protocol.NumberedCall) {
	for _, call := range calls {
		if c.sessions[s.conn] != s {
			return
		}
		if call.Number <= s.last {
			continue
		}
		s.last = call.Number
		c.call(s, call.Number, call.Call)
	}
}

func (c *Core) call(s *session, number uint64, call protocol.SchedulerCall) {
	switch call := call.(type) {
	case protocol.Unsettled:
		c.unsettled(s, call)
	case protocol.Accept:
		c.accept(s, number, call)
	case protocol.Decline:
		c.decline(s, call)
	case protocol.Kill:
		c.killCalled(s, number, call)
	case protocol.Acknowledge:
		c.acknowledged(s, call.Items)
	case protocol.Reconcile:
		c.reconcile(s, number, call)
	case protocol.ReconcileOperations:
		c.reconcileOperations(s, number, call)
	case protocol.Suppress:
		c.suppress(s, number, call.Roles)
	case protocol.Revive:
		c.revive(s, number, call.Roles)
	case protocol.SetDemand:
		c.setDemand(s, number, call)
	case protocol.MessageExecutor:
		c.messageExecutor(s, number, call)
	case protocol.ShutdownExecutor:
		c.shutdownExecutor(s, number, call)
	case protocol.AnswerInverse:
		c.answerInverse(s, call)
	case protocol.UpdateFramework:
		c.updateFramework(s, number, call)
	case protocol.Teardown:
		c.teardown(s, number)
	case protocol.SchedulerHeartbeat:
		c.tell(s.framework, protocol.MasterHeartbeat{Masters: c.mastersNews(&s.masters)})
	case protocol.Malformed:
		c.refuse(s, number, call.Err)
	default:
		c.refuse(s, number, api.E("framework.call", api.Unsupported, "", fmt.Errorf("this master knows no call %T", call)))
	}
}

// refusalsSaidMax is how many refused calls of a session are worth a line of the log in a
// second; the others are counted by the next line.
const refusalsSaidMax = 8

func (c *Core) reportRefusal(s *session, err *api.Error) {
	fields := []Field{field("framework", s.framework.id), field("why", err.Error())}
	switch {
	case c.now.Sub(s.refusedAt) >= time.Second:
		if unsaid := s.refusals - refusalsSaidMax; unsaid > 0 {
			fields = append(fields, field("and_before", strconv.Itoa(unsaid)))
		}
		s.refusedAt, s.refusals = c.now, 1
	case s.refusals >= refusalsSaidMax:
		s.refusals++
		return
	default:
		s.refusals++
	}
	c.info("call refused", fields...)
}

// refuse answers a call that has done nothing.
func (c *Core) refuse(s *session, number uint64, err *api.Error) {
	c.reportRefusal(s, err)
	c.tell(s.framework, protocol.Refused{Number: number, Err: err})
}

func (c *Core) schedulerClosed(event SchedulerClosed) {
	if s := c.sessions[event.Conn]; s != nil {
		c.leave(s, orBroken(event.Why))
	}
}

// orBroken is why a stream is gone when nobody says more.
func orBroken(why string) string {
	if why == "" {
		return "its stream is broken"
	}
	return why
}

// sessionDue judges a silent scheduler.
func (c *Core) sessionDue(s *session) {
	if until := s.seen.Add(c.config.SessionTimeout); until.After(c.now) {
		c.deadlines.set(s.clock, until)
		return
	}
	why := "no call for " + c.config.SessionTimeout.String()
	c.emit(CloseScheduler{Conn: s.conn, Err: api.E("framework.session", api.Unavailable, who(s.subscribe.Framework), errors.New(why))})
	c.leave(s, why)
}

// leave ends a session whose stream is gone: the framework is disconnected.
func (c *Core) leave(s *session, why string) {
	c.dropSession(s)
	fw := s.framework
	if fw == nil || fw.session != s {
		return
	}
	fw.session = nil
	c.rescindAll(fw.offers, "the framework is disconnected: "+why)
	c.goAway(fw, why)
	c.describeToPolicy(fw)
	c.keepPlace(fw, s.seen)
	c.info("framework disconnected", field("framework", fw.id), field("why", why))
	for _, t := range fw.sortedTasks() {
		if t.agent.drain.force { // its acknowledgements are not awaited any more (R31)
			c.checkDrained(t.agent)
		}
	}
}

// endSession closes a stream from our side.
func (c *Core) endSession(s *session, err *api.Error) {
	c.dropSession(s)
	c.emit(CloseScheduler{Conn: s.conn, Err: err})
}

// refuseSession ends a stream that never became active.
func (c *Core) refuseSession(s *session, err *api.Error) {
	c.info("framework refused", field("framework", who(s.subscribe.Framework)), field("why", err.Error()))
	c.endSession(s, err)
}

func (c *Core) dropSession(s *session) {
	delete(c.sessions, s.conn)
	c.dropped++
	c.deadlines.clear(s.clock)
	s.owed, s.early, s.walks = questions{}, nil, [walks]cursor{}
	c.stopWaiting(s)
	c.leaveLine(s)
}

// removalError is what a scheduler hears when its framework is removed: nothing when
// it asked for that itself.
func removalError(id api.FrameworkID, s *session, why string) *api.Error {
	if why == tornDown {
		return nil
	}
	return api.E("framework.session", api.Removed, id, errors.New(why))
}

// tornDown is why a framework is removed that wished so.
const tornDown = "torn down by its scheduler"

func (c *Core) teardown(s *session, number uint64) {
	fw := s.framework
	if c.tooMany(s, number, "framework.teardown") {
		return
	}
	change := registry.RemoveFramework{ID: fw.id, Session: s.number, Why: tornDown}
	c.propose(change, tearDown{s, number})
}

// teardownAnswered goes on when the registry has answered.
func (c *Core) teardownAnswered(s *session, number uint64, result registry.Result) {
	s.changes--
	if fw := s.framework; result.Err != nil && fw.session == s {
		c.refuse(s, number, api.E("framework.teardown", result.Err.Kind, fw.id, result.Err.Err))
	}
}

// changesMax is how many changes of its framework a session has on their way to the quorum; one
// more is refused (Limit).
const changesMax = 16

// tooMany counts a change of the session's framework, or refuses it.
func (c *Core) tooMany(s *session, number uint64, op string) bool {
	if s.changes >= changesMax {
		c.refuse(s, number, api.E(op, api.Limit, s.framework.id,
			fmt.Errorf("%d changes of this session wait for the quorum already; wait for an answer", changesMax)))
		return true
	}
	s.changes++
	return false
}

// updateFramework replaces what Subscribe said, but who it is.
func (c *Core) updateFramework(s *session, number uint64, call protocol.UpdateFramework) {
	fw := s.framework
	wish := protocol.Subscribe{Framework: call.Framework}
	wish.Framework.ID, wish.Framework.Name = fw.id, fw.info.Name
	wish.Framework.Principal, wish.Framework.Standby = s.principal, fw.info.Standby
	if kind, err := c.checkSubscribe(&wish); err != nil {
		c.refuse(s, number, api.E("framework.update", kind, fw.id, err))
		return
	}
	if c.tooMany(s, number, "framework.update") {
		return
	}
	c.propose(registry.UpdateFramework{Framework: wish.Framework, Session: s.number}, updateFramework{s, number})
}

// updateAnswered goes on when the registry has answered.
func (c *Core) updateAnswered(s *session, number uint64, result registry.Result) {
	s.changes--
	switch fw := s.framework; {
	case fw.session != s:
	case result.Err != nil:
		c.refuse(s, number, api.E("framework.update", result.Err.Kind, fw.id, result.Err.Err))
	default:
		c.info("framework updated", field("framework", fw.id))
		c.tell(fw, protocol.FrameworkUpdated{Number: number})
	}
}
