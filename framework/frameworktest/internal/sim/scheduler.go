package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// scheduler is a framework's scheduler: the SDK's core in a shell without goroutines. What the scheduler wants is in
// its work.
type scheduler struct {
	world    *World
	name     string
	info     api.Framework
	work     *work
	user     user // decides and is told; usually its work
	up       bool // its process runs
	isolated bool
	life     int // counts starts and ends, so that what one life has planned is not done in another
	updates  int // number of updates that were heard
	clock    timepiece

	// What ends with the process:
	core *sdk.Core
	waker
	callbacks []callback
	calling   bool   // a callback is under way
	asked     uint64 // number of the call of Offers that began last
	said      said
	offers    map[api.OfferID]api.Offer
	sessions  uint64 // number of sessions so far
	phase     phase
	writer

	// What lives as long as one stream:
	line *schedulerLine
	out  []protocol.NumberedCall
}

// user is whom a scheduler serves.
type user interface {
	listInterests() sdk.Interests // beside those that all have
	hearSubscribed(s *scheduler)
	hearSettled(s *scheduler)
	hearOffers(s *scheduler, offers []api.Offer)
	hearRescinded(s *scheduler, offers []api.OfferID)
	hearUpdate(s *scheduler, status api.Status) sdk.Outcome
	hearRemoved(s *scheduler)
	sayDemand(s *scheduler)
	findUnsettled(s *scheduler) string // what has not come to rest though nothing is broken any more; "": nothing
	findUnrest() string                // what is left to do once no more work is begun; "": nothing
}

// writer writes into the framework's store.
type writer struct {
	session uint64 // the session's number in the registry
	writes  uint64 // how many writes there were in this life of the process
	// takeovers is as the SDK counts them.
	takeovers uint64
	lanes     []*storeLane
}

// phase says how far a session has come, as the scheduler and its leader see it.
type phase uint8

const (
	away     phase = iota
	standing       // standing by: another instance is active
	active
)

// callback is a call of the work that waits.
type callback struct {
	call    sdk.Callback
	session uint64 // the session in which it was handed out
}

// reconcileEvery is shorter than the SDK's default, because stories are short.
const reconcileEvery = time.Minute

// addScheduler makes a scheduler whose process is not yet started.
func (w *World) addScheduler(name string, work *work) *scheduler {
	s := &scheduler{world: w, name: name, work: work, user: work, clock: timepiece{drift: w.drawDrift()}}
	s.info = api.Framework{Name: name, Roles: []api.Role{api.Role("role-" + name)}, FailoverTimeout: time.Hour}
	w.schedulers = append(w.schedulers, s)
	return s
}

// startProcess starts the process, which only remembers its framework's ID and its work.
func (s *scheduler) startProcess() {
	if s.up {
		return
	}
	s.endProcess()
	s.up = true
	s.world.tellStory(s.name, "scheduler starts")
	s.core = sdk.New(sdk.Config{
		Framework: s.info, Masters: []string{"masters"}, Version: "v1", ReconcileInterval: reconcileEvery,
		Interests: s.user.listInterests() | sdk.InSubscribed | sdk.InRescinded | sdk.InInverseOffers | sdk.InMessages | sdk.InExecutorLost | sdk.InAgentLost | sdk.InOperations,
	})
	s.stepCore(sdk.Started{Instance: s.instanceName()})
}

func (s *scheduler) instanceName() api.Nonce {
	return api.Nonce(fmt.Sprintf("%s-instance-%d", s.name, s.life))
}

// killProcess ends the process at once.
func (s *scheduler) killProcess() {
	if !s.up {
		return
	}
	s.world.tellStory(s.name, "scheduler is killed")
	if s.line != nil {
		s.line.stream.tear()
	}
	s.endProcess()
}

// endProcess forgets everything that ends with the process.
func (s *scheduler) endProcess() {
	s.up, s.waker, s.line, s.out = false, waker{}, nil, nil
	s.callbacks, s.calling, s.asked, s.said, s.offers = nil, false, 0, said{}, map[api.OfferID]api.Offer{}
	s.phase, s.writer = away, writer{}
	s.life++
}

func (s *scheduler) cutOff() {
	s.isolated = true
	s.world.tellStory(s.name, "is isolated")
	if s.line != nil {
		s.line.stream.silence()
	}
}

func (s *scheduler) joinAgain() { s.isolated = false }

// planLater calls do after a pause, unless the process has ended meanwhile.
func (s *scheduler) planLater(pause time.Duration, do func()) {
	life := s.life
	s.world.planIn(pause, func() {
		if s.up && s.life == life {
			do()
		}
	})
}

// stepCore passes an event to the core, and performs the core's effects.
func (s *scheduler) stepCore(what sdk.Happening) {
	if !s.up {
		return
	}
	effects := s.core.Step(sdk.Event{At: s.clock.read(s.world), Chance: s.world.random.Uint64(), What: what})
	for _, effect := range slices.Clone(effects) { // a clone, because performing one may step again
		s.performEffect(effect)
	}
	s.armWaker()
}

func (s *scheduler) armWaker() {
	s.wakeAt(s.core.Wake(), &s.clock, s.world, s.planLater, func() { s.stepCore(sdk.Woken{}) })
}

func (s *scheduler) performEffect(effect sdk.Effect) {
	switch e := effect.(type) {
	case sdk.Dial:
		s.planLater(s.world.drawBetween(10*time.Millisecond, 400*time.Millisecond), s.dialLeader)
	case sdk.CloseLink:
		s.hangUp()
	case sdk.Send:
		s.sendCall(e.Number, e.Call)
	case sdk.Acknowledge:
		s.world.truth.checkAcknowledged(s, e.Item)
		s.sendCall(e.Number, protocol.Acknowledge{Items: []protocol.Acknowledgement{e.Item}})
	case sdk.SessionBegan:
		s.info.ID, s.phase, s.session, s.takeovers = e.Framework, active, e.Session, e.Takeovers
		s.sessions++
	case sdk.SessionEnded:
		s.phase, s.offers = away, map[api.OfferID]api.Offer{}
	case sdk.Callback:
		s.callbacks = append(s.callbacks, callback{e, s.sessions})
		s.callNext()
	case sdk.Ended:
		s.hearEnded(e.Err)
	case sdk.Log:
		s.tellLog(e)
	case sdk.FrameworkChanged:
		s.info, s.said.changes = e.Framework, e.Changes
	case sdk.UpdateEnded, sdk.WantedTold, sdk.StandsBy: // nobody waits for these
	case sdk.Count: // nobody counts
	}
}

func (s *scheduler) tellLog(e sdk.Log) {
	if s.world.story == nil {
		return
	}
	text := e.Message
	for _, f := range e.Fields {
		text += fmt.Sprintf(" %s=%q", f.Name, fmt.Sprint(f.Value))
	}
	s.world.tellStory(s.name, "%s", text)
}

// hearEnded handles the end of Run. If others have ended it, the scheduler starts again, as under a supervisor.
func (s *scheduler) hearEnded(err error) {
	s.hangUp()
	s.endProcess()
	switch {
	case err == nil, api.Is(err, api.Removed):
		s.user.hearRemoved(s)
	case api.Is(err, api.Fenced):
	default:
		s.world.planIn(time.Second, s.startProcess)
	}
}

// dialLeader opens the stream that the core asks for.
func (s *scheduler) dialLeader() {
	to := s.world.quorum.findAnswering()
	if to == nil || s.isolated {
		s.stepCore(sdk.Dialed{Err: errOver})
		return
	}
	line := &schedulerLine{lineEnd: lineEnd{stream: newStream(s.world), leader: to}, scheduler: s}
	line.stream.atServer = func() { to.loseLine(line) }
	line.stream.atClient = func(err *api.Error) {
		if s.line == line && s.up {
			s.line, s.out = nil, nil
			s.stepCore(sdk.LinkEnded{Err: err})
		}
	}
	s.line = line
	s.stepCore(sdk.Dialed{})
}

// hangUp ends the stream from this side, if there is one.
func (s *scheduler) hangUp() {
	if line := s.line; line != nil {
		s.line = nil
		s.flushTo(line)
		line.stream.closeByClient(errOver)
	}
	s.out = nil
}

// sendCall queues a call, which is sent at the end of this moment.
func (s *scheduler) sendCall(number uint64, call protocol.SchedulerCall) {
	if len(s.out) == 0 {
		s.world.planIn(0, func() {
			if s.line != nil {
				s.flushTo(s.line)
			}
		})
	}
	s.out = append(s.out, protocol.NumberedCall{Number: number, Call: call})
}

func (s *scheduler) flushTo(line *schedulerLine) {
	if len(s.out) == 0 {
		return
	}
	messages, err := wire.SchedulerCallBatches(s.out)
	s.out = nil
	carry(line.stream, &line.stream.up, messages, err, func(message *apiv1.SchedulerCalls) (func(), error) {
		heard, err := wire.SchedulerCallsFromProto(message)
		return func() { line.hear(heard) }, err
	})
}

// hearEvents handles a message of the master.
func (s *scheduler) hearEvents(line *schedulerLine, term api.Term, events []protocol.SchedulerEvent) {
	if s.line != line || !s.up {
		return
	}
	for _, event := range events {
		if s.world.story != nil {
			s.world.tellStory(s.name, "hears %s", describe(event))
		}
		switch e := event.(type) {
		case protocol.Waiting:
			s.phase = standing
		case protocol.Update:
			s.updates++
			s.work.noteEnd(e.Status)
		default: // only the core handles the others
		}
	}
	s.stepCore(sdk.Heard{Term: term, Events: events})
}

// callNext lets the work handle the callback that has waited for longest; that may take long.
func (s *scheduler) callNext() {
	if s.calling || len(s.callbacks) == 0 {
		return
	}
	s.calling = true
	next := s.callbacks[0]
	s.callbacks = s.callbacks[1:]
	life := s.life
	s.planLater(s.world.drawPause(), func() {
		result := sdk.Called{Outcome: sdk.Skipped}
		if sdk.IsAlwaysMade(next.call) || s.phase == active && next.session == s.sessions {
			result = s.callUser(next.call)
		}
		if s.life != life { // the call has ended the process
			return
		}
		s.calling = false
		s.stepCore(result)
		s.callNext()
	})
}

func (s *scheduler) callUser(callback sdk.Callback) (result sdk.Called) {
	switch c := callback.(type) {
	case sdk.CallSubscribed:
		s.user.hearSubscribed(s)
	case sdk.CallSettled:
		s.user.hearSettled(s)
	case sdk.CallOffers:
		s.asked = c.Number
		for _, offer := range c.Offers {
			s.offers[offer.ID] = offer
			result.Answers = append(result.Answers, api.Keep(offer))
		}
		s.user.hearOffers(s, c.Offers)
	case sdk.CallRescinded:
		for _, id := range c.Offers {
			delete(s.offers, id)
		}
		s.user.hearRescinded(s, c.Offers)
	case sdk.CallUpdate:
		result.Outcome = s.user.hearUpdate(s, c.Status)
	case sdk.CallOperationDone:
		s.work.operationDone(s, c)
	case sdk.CallInverseOffers:
		s.work.askedBack(s, c.Offers)
	default: // the work handles no others
	}
	return result
}

// acceptOffer answers an offer with operations, the last of which launches, if the offer is still open.
func (s *scheduler) acceptOffer(offer api.Offer, operations []api.Operation, filter api.Filter) bool {
	return s.answerOffer(api.Answer{Offers: []api.OfferID{offer.ID}, Operations: operations, Filter: filter})
}

func (s *scheduler) declineOffer(offer api.Offer, filter api.Filter) {
	s.answerOffer(api.Answer{Offers: []api.OfferID{offer.ID}, Filter: filter})
}

func (s *scheduler) answerOffer(answer api.Answer) bool {
	id := answer.Offers[0]
	if _, open := s.offers[id]; !open {
		return false
	}
	delete(s.offers, id)
	s.stepCore(sdk.Answered{Answers: []api.Answer{answer}})
	return true
}

// firstOffer returns an offer that was not answered yet.
func (s *scheduler) firstOffer() api.Offer { return s.offers[slices.Sorted(maps.Keys(s.offers))[0]] }

// stateDemand states what is wanted from now on.
func (s *scheduler) stateDemand(demand api.Demand) {
	if len(demand.Shapes) > 0 {
		s.said.hushed = quieting{} // who wants something is offered it
	}
	s.stepCore(sdk.DemandStated{Demand: demand, Behind: s.asked})
}

// askStates asks for the states of tasks that the work remembers, because another process may have launched them.
func (s *scheduler) askStates(tasks ...api.TaskID) {
	if len(tasks) > 0 {
		s.stepCore(sdk.ReconcileAsked{Tasks: tasks})
	}
}
