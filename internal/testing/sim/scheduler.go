package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// scheduler is a framework's scheduler by the rules of the SDK: what it has not seen end it
// asks for in every session, offers end with their session, a kill is repeated until the task
// has ended. What it wants is its work's.
type scheduler struct {
	world    *World
	name     string
	info     api.Framework
	work     *work
	instance api.Nonce
	lives    int
	up       bool // its process runs
	isolated bool

	// What outlives sessions, and ends with the process.
	cluster api.ClusterID
	term    api.Term
	book    map[api.TaskID]*entry
	endings map[api.TaskID]api.TaskState
	updates int // that were heard
	life    int // counts restarts, so that what was planned in another life is not done

	// What lives as long as one stream.
	line    *schedulerLine
	phase   phase
	heard   time.Time
	timeout time.Duration
	beat    time.Duration
	number  uint64
	out     []protocol.NumberedCall
	flushes bool
	offers  map[api.OfferID]api.Offer
	accepts map[uint64][]api.OfferID
	dialing bool
	asks    time.Time // the next periodic reconciliation
}

// reconcileEvery is shorter than the SDK's, as are all stories.
const reconcileEvery = time.Minute

type phase uint8

const (
	phaseNone phase = iota
	phaseSubscribing
	phaseStanding
	phaseActive
)

// entry is what the SDK remembers of a task.
type entry struct {
	id       api.TaskID
	agent    api.AgentID
	launched bool
	known    bool
	asked    bool
	number   uint64 // handled
	seen     uint64 // taken in
	state    api.TaskState
	latest   api.TaskState
	over     bool
	held     []api.Status
	busy     bool
	accept   uint64
	kill     bool
	// questioned: the leader was asked about it since it was launched.
	questioned bool
}

// addScheduler makes a scheduler whose process is not yet started.
func (w *World) addScheduler(name string, work *work) *scheduler {
	s := &scheduler{world: w, name: name, work: work}
	s.info = api.Framework{Name: name, Roles: []api.Role{api.Role("role-" + name)}, FailoverTimeout: time.Hour}
	w.schedulers = append(w.schedulers, s)
	return s
}

// start starts the process, which remembers nothing but its framework's ID and its work.
func (s *scheduler) start() {
	if s.up {
		return
	}
	s.up = true
	s.lives++
	s.life++
	s.instance = api.Nonce(fmt.Sprintf("%s-instance-%d", s.name, s.lives))
	s.cluster, s.term = "", api.Term{}
	s.book, s.endings = map[api.TaskID]*entry{}, map[api.TaskID]api.TaskState{}
	s.hangUp()
	s.world.say(s.name, "scheduler starts")
	s.dial()
}

// kill ends the process at once.
func (s *scheduler) kill() {
	if !s.up {
		return
	}
	s.world.say(s.name, "scheduler is killed")
	s.up = false
	s.life++
	if s.line != nil {
		s.line.stream.tear()
	}
	s.hangUp()
}

func (s *scheduler) hangUp() {
	s.line, s.phase = nil, phaseNone
	s.offers, s.accepts, s.out = map[api.OfferID]api.Offer{}, map[uint64][]api.OfferID{}, nil
	for _, e := range s.book { // order: irrelevant because each is changed by itself
		e.accept = 0
	}
}

func (s *scheduler) isolate() {
	s.isolated = true
	s.world.say(s.name, "is isolated")
	if s.line != nil {
		s.line.stream.silence()
	}
}

func (s *scheduler) rejoin() { s.isolated = false }

// later does something unless the process has ended meanwhile.
func (s *scheduler) later(pause time.Duration, do func()) {
	life := s.life
	s.world.in(pause, func() {
		if s.up && s.life == life {
			do()
		}
	})
}

func (s *scheduler) dial() {
	if s.dialing || s.line != nil || !s.up {
		return
	}
	s.dialing = true
	s.world.in(s.world.between(10*time.Millisecond, 400*time.Millisecond), func() {
		s.dialing = false
		if s.up && s.line == nil && !s.connect() {
			s.dial()
		}
	})
}

func (s *scheduler) connect() bool {
	q := s.world.quorum
	to := q.leader
	if q.former != nil && (to == nil || s.world.chance(4)) {
		to = q.former
	}
	if to == nil || s.isolated {
		return false
	}
	line := &schedulerLine{stream: newStream(s.world), leader: to, scheduler: s}
	line.stream.atServer = line.closedAtLeader
	line.stream.atClient = func(err *api.Error) {
		if s.line == line && s.up {
			s.drop(err)
		}
	}
	s.line, s.phase, s.number = line, phaseSubscribing, 0
	s.heard, s.beat, s.timeout = s.world.now, time.Second, 5*time.Second
	s.subscribe()
	s.tick(line)
	return true
}

// subscribe says who it is and what it does not know the end of (R8).
func (s *scheduler) subscribe() {
	s.send(protocol.Subscribe{Cluster: s.cluster, Term: s.term, Version: "v1", Framework: s.info, Instance: s.instance})
	s.send(protocol.Unsettled{Tasks: s.unsettled(), Last: true})
}

// unsettled are the tasks that the leader is asked about.
func (s *scheduler) unsettled() []protocol.UnsettledTask {
	var tasks []protocol.UnsettledTask
	for _, id := range slices.Sorted(maps.Keys(s.book)) {
		if e := s.book[id]; (e.known || e.asked) && !e.over {
			tasks = append(tasks, e.unsettled())
		}
	}
	return tasks
}

// unsettled is the question about the task.
func (e *entry) unsettled() protocol.UnsettledTask {
	e.questioned = true
	return protocol.UnsettledTask{Task: e.id, Agent: e.agent, Number: e.number, State: max(e.state, api.TaskStaging)}
}

// tick keeps the session, and leaves a master that is silent.
func (s *scheduler) tick(line *schedulerLine) {
	s.later(s.beat, func() {
		if s.line != line {
			return
		}
		if s.silent() {
			s.leave(errBroken)
			return
		}
		s.send(protocol.SchedulerHeartbeat{})
		if s.phase == phaseActive && !s.world.now.Before(s.asks) {
			s.asks = s.world.now.Add(reconcileEvery)
			if tasks := s.unsettled(); len(tasks) > 0 {
				s.send(protocol.Reconcile{Tasks: tasks})
			}
		}
		s.tick(line)
	})
}

func (s *scheduler) silent() bool {
	quiet := s.world.now.Sub(s.heard)
	switch s.phase {
	case phaseSubscribing:
		return quiet >= 5*time.Second
	case phaseStanding:
		return quiet >= 2*s.timeout
	}
	return quiet >= s.timeout*2/3
}

// leave ends the session from this side.
func (s *scheduler) leave(err *api.Error) {
	s.line.stream.closeByClient(err)
	s.drop(err)
}

// drop follows the end of a session.
func (s *scheduler) drop(err *api.Error) {
	if s.world.story != nil {
		s.world.say(s.name, "session ends: %v", err)
	}
	s.hangUp()
	switch api.KindOf(err) {
	case api.Fenced:
		if !s.info.Standby {
			s.up = false
			s.life++
			return
		}
		s.forgetTasks()
	case api.Removed:
		s.work.removed(s)
		return
	}
	s.dial()
}

func (s *scheduler) forgetTasks() {
	s.book, s.endings = map[api.TaskID]*entry{}, map[api.TaskID]api.TaskState{}
}

// send queues a call; it leaves when this moment is over.
func (s *scheduler) send(call protocol.SchedulerCall) uint64 {
	s.number++
	s.out = append(s.out, protocol.NumberedCall{Number: s.number, Call: call})
	if !s.flushes {
		s.flushes = true
		s.world.in(0, func() {
			s.flushes = false
			s.flush()
		})
	}
	return s.number
}

func (s *scheduler) flush() {
	line := s.line
	if line == nil || len(s.out) == 0 {
		return
	}
	messages, err := wire.SchedulerCallBatches(s.out)
	s.out = nil
	if err != nil {
		s.world.breaks("a call of a scheduler fits no message: %v", err)
	}
	for _, message := range messages {
		line.stream.send(&line.stream.up, func() {
			heard, err := wire.SchedulerCallsFromProto(message)
			if err != nil {
				s.world.breaks("the leader can't read what a scheduler wrote: %v", err)
				return
			}
			line.hear(heard)
		})
	}
}

// hear takes a message of the master.
func (s *scheduler) hear(line *schedulerLine, term api.Term, events []protocol.SchedulerEvent) {
	if s.line != line || !s.up {
		return
	}
	if s.silent() || term.Before(s.term) {
		s.leave(errBroken)
		return
	}
	s.term, s.heard = term, s.world.now
	for _, event := range events {
		if s.line != line || !s.up {
			return
		}
		if s.world.story != nil {
			s.world.say(s.name, "hears %s", describe(event))
		}
		s.event(event)
	}
}

func (s *scheduler) event(event protocol.SchedulerEvent) {
	switch e := event.(type) {
	case protocol.Subscribed:
		s.subscribed(e)
	case protocol.Waiting:
		s.stand()
	case protocol.Offers:
		for _, offer := range e.Offers {
			s.offers[offer.ID] = offer
		}
		s.work.offered(s, e.Offers)
	case protocol.Rescind:
		for _, id := range e.Offers {
			delete(s.offers, id)
		}
	case protocol.Update:
		s.updates++
		s.heardStatus(e.Status)
	case protocol.Refused:
		s.refused(e)
	default: // the others mean nothing here
	}
}

func (s *scheduler) subscribed(e protocol.Subscribed) {
	s.cluster, s.info.ID, s.phase = e.Cluster, e.Framework, phaseActive
	s.asks = s.world.now.Add(reconcileEvery)
	s.beat, s.timeout = max(e.HeartbeatInterval, time.Millisecond), max(e.SessionTimeout, time.Millisecond)
	s.work.subscribed(s)
	for _, id := range slices.Sorted(maps.Keys(s.book)) {
		if t := s.book[id]; t.kill && !t.over {
			s.sendKill(t)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.book)) {
		if t := s.book[id]; len(t.held) > 0 && !t.busy {
			s.deliver(t)
		}
	}
}

func (s *scheduler) stand() {
	s.phase = phaseStanding
	if len(s.book) > 0 {
		s.forgetTasks()
		s.leave(api.E("framework.session", api.Fenced, "", errors.New("another instance was active")))
	}
}

// accept answers an offer with operations, the last of which launches, if it is still open.
func (s *scheduler) accept(offer api.Offer, operations []api.Operation, filter api.Filter) bool {
	if _, open := s.offers[offer.ID]; !open || s.phase != phaseActive {
		return false
	}
	delete(s.offers, offer.ID)
	call := s.send(protocol.Accept{
		Offers: []api.OfferID{offer.ID}, Operations: operations, Filter: filter,
	})
	s.accepts[call] = []api.OfferID{offer.ID}
	for _, task := range operations[len(operations)-1].Tasks { // launches come last
		delete(s.endings, task.ID)
		s.book[task.ID] = &entry{id: task.ID, agent: offer.Agent, launched: true, known: true, state: api.TaskStaging, latest: api.TaskStaging, accept: call}
	}
	return true
}

func (s *scheduler) decline(offer api.Offer, filter api.Filter) {
	if _, open := s.offers[offer.ID]; open && s.phase == phaseActive {
		delete(s.offers, offer.ID)
		s.send(protocol.Decline{Offers: []api.OfferID{offer.ID}, Filter: filter})
	}
}

// killTask asks for a task's end, in this session and in every one until it has ended (R12).
func (s *scheduler) killTask(id api.TaskID) {
	if e := s.book[id]; e != nil && !e.over {
		e.kill = true
		if s.phase == phaseActive {
			s.sendKill(e)
		}
	}
}

func (s *scheduler) sendKill(e *entry) {
	e.questioned = true
	s.send(protocol.Kill{Task: e.id, Agent: e.agent})
}

// ask reconciles tasks that the work remembers and this process has not heard of.
func (s *scheduler) ask(ids []api.TaskID) {
	var asked []protocol.UnsettledTask
	for _, id := range ids {
		delete(s.endings, id)
		if s.book[id] == nil {
			s.book[id] = &entry{id: id}
		}
		s.book[id].asked = true
		asked = append(asked, s.book[id].unsettled())
	}
	if len(asked) > 0 && s.phase == phaseActive {
		s.send(protocol.Reconcile{Tasks: asked})
	}
}

func settles(state api.TaskState) bool { return state.Terminal() || state == api.TaskUnknown }

// heardStatus judges a status, and delivers or acknowledges it.
func (s *scheduler) heardStatus(status api.Status) {
	e := s.book[status.Task]
	if e != nil && e.kill && !e.over && status.Reason == api.ReasonReconciliation && !status.State.Terminal() {
		s.sendKill(e)
	}
	if e == nil {
		if _, ended := s.endings[status.Task]; ended {
			s.acknowledge(status)
			return
		}
		e = &entry{id: status.Task, agent: status.Agent}
		s.book[status.Task] = e
	}
	deliver, acknowledge := e.judge(status)
	e.known, e.accept = true, 0
	switch {
	case deliver:
		e.held = append(e.held, status)
		e.seen, e.latest, e.over, e.asked = max(e.seen, status.Number), status.State, settles(status.State), false
		if !e.busy {
			s.deliver(e)
		}
	case acknowledge:
		s.acknowledge(status)
	}
}

func (e *entry) judge(status api.Status) (deliver, acknowledge bool) {
	foreign := status.Number == 0 && status.Reason == api.ReasonReconciliation && settles(status.State) && !e.questioned
	switch elsewhere := e.agent != "" && status.Agent != e.agent; {
	case e.launched && (elsewhere && status.Agent != "" || foreign):
		return false, status.Number > 0 // of another life of this ID
	case elsewhere && status.Number > 0:
		e.seen, e.number = 0, 0
	}
	if status.Agent != "" {
		e.agent = status.Agent
	}
	switch {
	case e.asked && !e.over:
		return true, false
	case status.Number > 0 && status.Number <= e.seen:
		if status.Number > e.number {
			return false, false
		}
		if e.latest == api.TaskUnreachable && !e.over {
			return true, false
		}
		return false, true
	case e.over && !(e.latest == api.TaskUnknown && status.State != api.TaskUnknown):
		return false, status.Number > 0
	case status.Number == 0 && (status.State == e.latest || status.Reason == api.ReasonTaskDuplicate && e.latest > api.TaskStaging):
		return false, false
	}
	return true, false
}

func (s *scheduler) acknowledge(status api.Status) {
	if status.Number > 0 && s.phase == phaseActive {
		s.send(protocol.Acknowledge{Items: []protocol.Acknowledgement{
			{Framework: s.info.ID, Task: status.Task, Agent: status.Agent, Number: status.Number},
		}})
	}
}

// deliver has the work handle the first status that is held; it may be slow, or fail.
func (s *scheduler) deliver(e *entry) {
	e.busy = true
	s.later(s.world.pause(), func() {
		switch {
		case s.book[e.id] != e:
			return
		case s.phase != phaseActive:
			e.busy = false // in the next session
			return
		case s.world.chance(30):
			s.later(s.world.between(100*time.Millisecond, 5*time.Second), func() { s.deliver(e) })
			return
		}
		e.busy = false
		s.handled(e)
	})
}

func (s *scheduler) handled(e *entry) {
	status := e.held[0]
	s.work.update(s, status)
	e.held = e.held[1:]
	e.state, e.number = status.State, max(e.number, status.Number)
	if settles(status.State) && (status.State != api.TaskUnknown || len(e.held) == 0) {
		delete(s.book, e.id)
		if status.State != api.TaskUnknown {
			s.endings[e.id] = status.State
		}
	} else if len(e.held) > 0 {
		s.deliver(e)
	}
	s.acknowledge(status)
}

// refused ends the tasks of an accept that was refused whole (R3).
func (s *scheduler) refused(e protocol.Refused) {
	if s.phase == phaseSubscribing {
		s.leave(e.Err)
		return
	}
	if _, is := s.accepts[e.Number]; !is {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.book)) {
		t := s.book[id]
		if t.accept != e.Number {
			continue
		}
		status := api.Status{
			Framework: s.info.ID, Task: id, Agent: t.agent, State: api.TaskDropped, Reason: api.ReasonInvalidOffers, Source: api.MoverMaster,
		}
		if e.Err.Kind == api.Invalid {
			status.State = api.TaskError
		}
		s.heardStatus(status)
	}
}
