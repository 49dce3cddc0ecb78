package core

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core/admission"
	"github.com/tenderhq/tender/master/registry"
)

// sessions keeps the schedulers' streams: which of them is admitted, which waits as a standby, and what becomes of a
// framework when its scheduler comes, calls, leaves or stays away.
type sessions struct {
	*base
	proposals   *proposals
	offers      *offers
	answers     *answers
	inverses    *inverses
	maintenance *maintenance
	frameworks  *frameworks
	executors   *executors
	tasks       *tasks
	demands     *demands
	operations  *operations

	places admission.Places[*session] // for frameworks whose name is their identity (R6)
	lines  admission.Lines[*session]  // for sessions that ask the registry for admission
}

const (
	// earlyCallsMax bounds the calls that wait until the session is open. A scheduler that sends more before that loses
	// its stream (Limit).
	earlyCallsMax = 4096
	// unsettledTasksMax bounds the unsettled tasks of one session. When there are more, the stream is closed (Limit).
	unsettledTasksMax = 1_000_000
)

// session is a scheduler's stream. It is active once its framework is set.
type session struct {
	conn      Conn
	by        rights.Scope // who the scheduler is, and in which roles it may run what
	subscribe protocol.Subscribe
	framework *framework
	number    uint64 // the session's number in the registry (R5)
	last      uint64 // number of the last call (R3)
	seen      time.Time
	clock     *deadline
	early     []protocol.NumberedCall
	waiting   bool   // it was told that it is a standby (R6)
	masters   uint64 // the version of the masters' addresses that it was last told (base.mastersAt)

	refused refusedCalls

	changes int // how many changes of its framework are on their way to the quorum

	jobEvents eventAllowance
	sessionAnswers
	sessionAccepts
}

func (r *sessions) schedulerOpened(event SchedulerOpened) {
	s := &session{conn: event.Conn, by: event.By, subscribe: event.Subscribe, seen: r.now}
	s.absent, s.waits = make(map[api.TaskID]api.AgentID), make(map[api.TaskID]*acceptance)
	s.subscribe.Framework.Principal = event.By.Who
	s.clock = newDeadline(sessionSilent{s})
	r.sessionByConn[s.conn] = s
	r.deadlines.Set(s.clock, r.now.Add(r.config.SessionTimeout))
	if kind, err := r.checkSubscribe(&s.subscribe, s.by); err != nil {
		if kind == api.Unsupported {
			r.frameworkVersionRefused(s, err)
		}
		r.refuseSession(s, api.E("framework.subscribe", kind, nameForPeople(s.subscribe.Framework), err))
		return
	}
	r.seekSession(s)
}

// checkSubscribe checks what a scheduler says about itself, and fills in defaults for what it left out.
func (r *sessions) checkSubscribe(subscribe *protocol.Subscribe, by rights.Scope) (api.Kind, error) {
	if kind, err := r.judge().Scheduler(subscribe, by); err != nil {
		return kind, err
	}
	return api.Invalid, r.checkConstraint(subscribe.Framework.Constraint)
}

// frameworkVersionRefused records that a scheduler was refused for its version, also on the framework if it is a known
// one.
func (r *sessions) frameworkVersionRefused(s *session, err error) {
	r.versionRefused("framework "+nameForPeople(s.subscribe.Framework), err.Error())
	if fw := r.frameworkByID[s.subscribe.Framework.ID]; fw != nil && fw.session == nil {
		fw.refused = err.Error()
		r.noteFramework(fw, change.Refused, fw.refused)
	}
}

// nameForPeople returns a framework's ID, or its name if it has no ID yet.
func nameForPeople(info api.Framework) string {
	if info.ID != "" {
		return string(info.ID)
	}
	return info.Name
}

// subscribed continues when the registry has answered a Subscribe.
func (r *sessions) subscribed(s *session, result registry.Result) {
	r.places.SeekDone(s.subscribe.Framework.Name, s)
	open := r.sessionByConn[s.conn] == s
	if result.Err != nil {
		if open {
			r.refuseSession(s, api.E("framework.subscribe", result.Err.Kind, nameForPeople(s.subscribe.Framework), result.Err.Err))
		}
		r.nextStandby(s.subscribe.Framework.Name)
		return
	}
	fw := r.frameworkByID[result.Framework]
	if old := fw.session; old != nil {
		r.fence(fw, old)
	}
	if !open { // taken over by a scheduler whose stream has ended since
		r.frameworks.goAway(fw, "its stream broke while it subscribed")
		r.frameworks.describeToPolicy(fw)
		r.keepPlace(fw, s.seen)
		return
	}
	r.activate(fw, s, result.Session)
}

// fence closes the stream of the instance that was active, because another one has taken over.
func (r *sessions) fence(fw *framework, old *session) {
	r.offers.rescindAll(fw.offers, "another instance has taken over")
	r.endSession(old, api.E("framework.session", api.Fenced, fw.id, errors.New("another instance of the framework has subscribed")))
	fw.session = nil
	r.noteFramework(fw, change.Disconnected, "another instance has taken over")
}

// activate makes the session its framework's active one. From now on it is sent offers and statuses.
func (r *sessions) activate(fw *framework, s *session, number uint64) {
	r.noteLatest(fw)
	s.framework, s.number = fw, number
	fw.session, fw.latest, fw.since, fw.why, fw.refused = s, s, r.now, "", ""
	r.deadlines.Clear(fw.failover)
	r.deadlines.Clear(fw.turn)
	s.masters = r.mastersAt
	r.tell(fw, protocol.Subscribed{
		Cluster:           r.registry.Cluster,
		Framework:         fw.id,
		Session:           number,
		Turn:              r.registry.Frameworks[fw.id].Turn,
		HeartbeatInterval: r.config.HeartbeatInterval,
		SessionTimeout:    r.config.SessionTimeout,
		Master:            r.config.Master,
		Masters:           r.masters(),
	})
	r.noteFramework(fw, change.Subscribed, "")
	r.info("framework subscribed", field("framework", fw.id), field("name", fw.info.Name), field("session", fmt.Sprint(number)))
	r.demands.resetDemand(fw, s.subscribe.Instance)
	r.frameworks.describeToPolicy(fw)
	r.demands.startSuppressed(fw, s.subscribe.Suppressed)
	if !s.subscribe.TellLater {
		r.answers.oweStart(s)
	}
	r.inverses.askFrameworkToLeave(fw)
	early := s.early
	s.early = nil
	r.calls(s, early)
}

func (r *sessions) schedulerCalled(event SchedulerCalled) {
	s := r.sessionByConn[event.Conn]
	if s == nil {
		return // the stream is closed, so its calls come too late
	}
	s.seen = r.now
	if s.framework != nil {
		r.calls(s, event.Calls)
		return
	}
	for _, call := range event.Calls {
		if _, beat := call.Call.(protocol.SchedulerHeartbeat); beat {
			r.emit(ToScheduler{Conn: s.conn, Event: protocol.MasterHeartbeat{Masters: r.mastersIfChanged(&s.masters)}})
		} else {
			s.early = append(s.early, call)
		}
	}
	if len(s.early) > earlyCallsMax {
		r.refuseSession(s, api.E("framework.subscribe", api.Limit, nameForPeople(s.subscribe.Framework),
			fmt.Errorf("more than %d calls before the session is open", earlyCallsMax)))
	}
}

// calls handles the calls of an active session. A call with a repeated number is ignored (R3).
func (r *sessions) calls(s *session, calls []protocol.NumberedCall) {
	for _, call := range calls {
		if r.sessionByConn[s.conn] != s {
			return
		}
		if call.Number <= s.last {
			continue
		}
		s.last = call.Number
		r.call(s, call.Number, call.Call)
	}
}

func (r *sessions) call(s *session, number uint64, call protocol.SchedulerCall) {
	switch call := call.(type) {
	case protocol.Unsettled:
		r.unsettled(s, call)
	case protocol.Accept:
		r.operations.accept(s, number, call)
	case protocol.Decline:
		r.offers.decline(s, number, call)
	case protocol.Kill:
		r.tasks.killCalled(s, number, call)
	case protocol.Acknowledge:
		r.tasks.acknowledged(s, call.Items)
	case protocol.Reconcile:
		r.answers.reconcile(s, number, call)
	case protocol.ReconcileOperations:
		r.answers.reconcileOperations(s, number, call)
	case protocol.Suppress:
		r.demands.suppress(s, number, call.Roles)
	case protocol.Revive:
		r.demands.revive(s, number, call.Roles)
	case protocol.SetDemand:
		r.demands.setDemand(s, number, call)
	case protocol.MessageExecutor:
		r.executors.messageExecutor(s, number, call)
	case protocol.ShutdownExecutor:
		r.executors.shutdownExecutor(s, number, call)
	case protocol.AnswerInverse:
		r.inverses.answerInverse(s, call)
	case protocol.JobEvent:
		r.jobEvent(s, number, call.Event)
	case protocol.JobDemand:
		r.note(change.Record{Kind: change.Job, Framework: s.framework.id, Wanted: call.Wanted})
	case protocol.UpdateFramework:
		r.updateFramework(s, number, call)
	case protocol.Teardown:
		r.teardown(s, number)
	case protocol.SchedulerHeartbeat:
		r.tell(s.framework, protocol.MasterHeartbeat{Masters: r.mastersIfChanged(&s.masters)})
	case protocol.Malformed:
		r.refuse(s, number, call.Err)
	default:
		r.refuse(s, number, api.E("framework.call", api.Unsupported, "", fmt.Errorf("this master knows no call %T", call)))
	}
}

// refusalsSaidMax is how many refused calls of a session are logged in a second. Further ones are only counted; the
// next line gives their number.
const refusalsSaidMax = 8

// refusedCalls counts the refused calls of a second.
type refusedCalls struct {
	since time.Time // when the second began
	count int
}

func (b *base) reportRefusal(s *session, err *api.Error) {
	fields := []Field{field("framework", s.framework.id), field("why", err.Error())}
	switch {
	case b.now.Sub(s.refused.since) >= time.Second:
		if unsaid := s.refused.count - refusalsSaidMax; unsaid > 0 {
			fields = append(fields, field("and_before", strconv.Itoa(unsaid)))
		}
		s.refused = refusedCalls{b.now, 1}
	case s.refused.count >= refusalsSaidMax:
		s.refused.count++
		return
	default:
		s.refused.count++
	}
	b.info("call refused", fields...)
}

// refuse answers a call that was refused and has changed nothing.
func (b *base) refuse(s *session, number uint64, err *api.Error) {
	b.reportRefusal(s, err)
	b.tell(s.framework, protocol.Refused{Number: number, Err: err})
}

func (r *sessions) schedulerClosed(event SchedulerClosed) {
	if s := r.sessionByConn[event.Conn]; s != nil {
		r.leave(s, cmp.Or(event.Why, streamBroke))
	}
}

// streamBroke is why a stream has ended for which no reason was given.
const streamBroke = "its stream is broken"

// sessionDue ends a session whose scheduler was silent for the session timeout.
func (r *sessions) sessionDue(s *session) {
	if until := s.seen.Add(r.config.SessionTimeout); until.After(r.now) {
		r.deadlines.Set(s.clock, until)
		return
	}
	why := "no call for " + r.config.SessionTimeout.String()
	r.emit(CloseScheduler{Conn: s.conn, Err: api.E("framework.session", api.Unavailable, nameForPeople(s.subscribe.Framework), errors.New(why))})
	r.leave(s, why)
}

// leave ends a session whose stream has ended. Its framework is disconnected from now on.
func (r *sessions) leave(s *session, why string) {
	r.dropSession(s)
	fw := s.framework
	if fw == nil || fw.session != s {
		return
	}
	fw.session = nil
	r.offers.rescindAll(fw.offers, "the framework is disconnected: "+why)
	r.frameworks.goAway(fw, why)
	r.frameworks.describeToPolicy(fw)
	r.keepPlace(fw, s.seen)
	r.noteFramework(fw, change.Disconnected, why)
	r.info("framework disconnected", field("framework", fw.id), field("why", why))
	for _, t := range fw.sortedTasks() {
		if !t.agent.awaits(fw) { // its acknowledgements are no longer waited for (R31, R67)
			r.maintenance.checkDrained(t.agent)
		}
	}
}

// endSession ends a session and closes its stream.
func (r *sessions) endSession(s *session, err *api.Error) {
	r.dropSession(s)
	r.emit(CloseScheduler{Conn: s.conn, Err: err})
}

// refuseSession closes a stream that never became active.
func (r *sessions) refuseSession(s *session, err *api.Error) {
	r.info("framework refused", field("framework", nameForPeople(s.subscribe.Framework)), field("why", err.Error()))
	r.endSession(s, err)
}

func (r *sessions) dropSession(s *session) {
	delete(r.sessionByConn, s.conn)
	r.answers.noteDropped()
	r.deadlines.Clear(s.clock)
	s.owed, s.early, s.walks = questions{}, nil, [walks]cursor{}
	r.places.StopWaiting(s)
	r.leaveLine(s)
}

// tornDown is the reason for the removal of a framework whose scheduler asked for it.
const tornDown = "torn down by its scheduler"

func (r *sessions) teardown(s *session, number uint64) {
	fw := s.framework
	if r.tooMany(s, number, "framework.teardown") {
		return
	}
	change := registry.RemoveFramework{ID: fw.id, Session: s.number, Why: tornDown}
	r.proposals.propose(change, tearDown{s, number})
}

// teardownAnswered continues when the registry has answered.
func (r *sessions) teardownAnswered(s *session, number uint64, result registry.Result) {
	s.changes--
	if fw := s.framework; result.Err != nil && fw.session == s {
		r.refuse(s, number, api.E("framework.teardown", result.Err.Kind, fw.id, result.Err.Err))
	}
}

// changesMax bounds the changes of its framework that a session has on their way to the quorum. One more is refused
// (Limit).
const changesMax = 16

// tooMany refuses a change of the session's framework if there are too many; otherwise it counts the change.
func (r *sessions) tooMany(s *session, number uint64, op string) bool {
	if s.changes >= changesMax {
		r.refuse(s, number, api.E(op, api.Limit, s.framework.id,
			fmt.Errorf("%d changes of this session wait for the quorum already; wait for an answer", changesMax)))
		return true
	}
	s.changes++
	return false
}

// updateFramework replaces everything that Subscribe said about the framework, except its identity.
func (r *sessions) updateFramework(s *session, number uint64, call protocol.UpdateFramework) {
	fw := s.framework
	wish := protocol.Subscribe{Framework: call.Framework}
	wish.Framework.ID, wish.Framework.Name = fw.id, fw.info.Name
	wish.Framework.Principal, wish.Framework.Standby = fw.info.Principal, fw.info.Standby
	if kind, err := r.checkSubscribe(&wish, s.by); err != nil {
		r.refuse(s, number, api.E("framework.update", kind, fw.id, err))
		return
	}
	if r.tooMany(s, number, "framework.update") {
		return
	}
	r.proposals.propose(registry.UpdateFramework{Framework: wish.Framework, Session: s.number}, updateFramework{s, number})
}

// updateAnswered continues when the registry has answered.
func (r *sessions) updateAnswered(s *session, number uint64, result registry.Result) {
	s.changes--
	switch fw := s.framework; {
	case fw.session != s:
	case result.Err != nil:
		r.refuse(s, number, api.E("framework.update", result.Err.Kind, fw.id, result.Err.Err))
	default:
		r.info("framework updated", field("framework", fw.id))
		r.tell(fw, protocol.FrameworkUpdated{Number: number})
	}
}

// standbyPlace keeps the place of the last active instance, for a framework whose name is its identity. Until the time
// place that instance may come back before a standby takes over (R6).
type standbyPlace struct {
	place time.Time
	turn  *deadline // when the place becomes free
}

// seekSession asks the registry to open the session, or makes a standby wait for its turn (R6).
func (r *sessions) seekSession(s *session) {
	fw := r.standbyOf(s)
	if fw != nil && !registry.MayTakeOver(fw.info.Principal, s.by.Who) {
		r.refuseSession(s, api.E("framework.subscribe", api.Denied, fw.id,
			fmt.Errorf("the name %q belongs to principal %q, not to %q", fw.info.Name, fw.info.Principal, s.by.Who)))
		return
	}
	if active := r.ahead(s, fw); active != "" {
		r.wait(s, active)
		return
	}
	if r.openSession(s) && s.subscribe.Framework.Standby {
		r.places.Seek(s.subscribe.Framework.Name, s)
	}
}

// standbyOf returns the framework whose place the session wants, if the framework's name is its identity; otherwise
// nil. The name takes precedence over the ID, as in the registry.
func (r *sessions) standbyOf(s *session) *framework {
	wish := s.subscribe.Framework
	id := wish.ID
	if named := r.places.Of(wish.Name); named != "" && wish.Standby {
		id = named
	}
	if fw := r.frameworkByID[id]; fw != nil && fw.info.Standby && !fw.removed {
		return fw
	}
	return nil
}

// ahead returns the instance that is active, that is becoming active, or that may still come back to its place; "" when
// the place is free.
func (r *sessions) ahead(s *session, fw *framework) api.Nonce {
	if other, is := r.places.Seeker(s.subscribe.Framework.Name); is && other != s && s.subscribe.Framework.Standby {
		return other.subscribe.Instance
	}
	if fw == nil {
		return ""
	}
	last := r.registry.Frameworks[fw.id].Instance
	if last == s.subscribe.Instance || last == "" {
		return ""
	}
	if fw.session != nil || r.now.Before(fw.place) {
		return last
	}
	return ""
}

// wait makes the session a standby. It is told so once.
func (r *sessions) wait(s *session, active api.Nonce) {
	r.places.Wait(s.subscribe.Framework.Name, s)
	if !s.waiting {
		s.waiting = true
		r.info("standby waits", field("name", s.subscribe.Framework.Name), field("instance", s.subscribe.Instance), field("active", active))
		r.emit(ToScheduler{Conn: s.conn, Event: protocol.Waiting{ActiveInstance: active}})
	}
}

// keepPlace keeps the place of the instance that was last heard from at the time seen.
func (r *sessions) keepPlace(fw *framework, seen time.Time) {
	if !fw.info.Standby || fw.removed {
		return
	}
	fw.place = seen.Add(r.config.SessionTimeout)
	r.deadlines.Set(fw.turn, fw.place)
}

// nextStandby lets the session that has waited longest for the name try to take the place.
func (r *sessions) nextStandby(name string) {
	if s, is := r.places.Next(name); is {
		r.seekSession(s)
	}
}

// identity returns the same text for all sessions that want to be the same framework.
func (s *session) identity() string {
	if id := s.subscribe.Framework.ID; id != "" {
		return "framework " + string(id)
	}
	return "instance " + string(s.subscribe.Instance)
}

// openSession asks the registry, when it is the session's turn, to admit the framework or to let the session take it
// over (R5). It returns false when the session was refused.
func (r *sessions) openSession(s *session) bool {
	if !r.lines.Wait(s.identity(), s) {
		r.refuseSession(s, api.E("framework.subscribe", api.Limit, nameForPeople(s.subscribe.Framework),
			fmt.Errorf("%d sessions of it wait for the quorum already; close them, or wait for their answers", admission.LineMax)).RetryIn(admission.LineRetry))
		return false
	}
	r.askForSessions()
	return true
}

func (r *sessions) askForSessions() {
	for s, is := r.lines.Next(); is; s, is = r.lines.Next() {
		change := registry.Subscribe{Framework: s.subscribe.Framework, Instance: s.subscribe.Instance}
		r.proposals.propose(change, openSession{s, s.identity()})
	}
}

// subscribeAnswered continues when the registry has answered, and lets the next sessions ask.
func (r *sessions) subscribeAnswered(o openSession, result registry.Result) {
	r.lines.Answered(o.identity)
	r.subscribed(o.session, result)
	r.askForSessions()
}

// leaveLine removes a session that has ended from its line. If it was a standby that had not asked the registry yet,
// the next standby may try.
func (r *sessions) leaveLine(s *session) {
	if r.lines.Leave(s.identity(), s) {
		r.places.SeekDone(s.subscribe.Framework.Name, s)
		r.nextStandby(s.subscribe.Framework.Name)
	}
}
