package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/pack"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// holdTimeout bounds how long a launch that fell through waits for the next offers of its agent. Then the framework is
// told that the task was dropped.
const holdTimeout = 30 * time.Second

// place is where offers and launches belong.
type place struct {
	agent api.AgentID
	role  api.Role
}

// launch is a task, or a group of tasks, of which no agent has told anything yet.
//
// A launch falls through when the leader, the agent or the offers that it names are gone before it is there: its tasks
// have never begun. Old frameworks may take the loss of a task for the end of the world, so they are not told; the
// launch is held, and repeated with the next offers of its agent.
type launch struct {
	written   *mesosv1.Offer_Operation // as the framework has written it
	operation api.Operation
	place
	record *record // in which it is in the framework's store
	asked  bool    // it comes from another gateway: the masters were asked what has become of it
	fallen map[api.TaskID]api.Status
	until  time.Time     // the framework is told then; zero: it has not fallen through
	out    chan struct{} // closed when it is in the store no longer
}

// hasFallen says that all tasks of the launch have fallen through: those of a group begin together.
func (l *launch) hasFallen() bool { return len(l.fallen) == len(l.operation.Tasks) }

// launches are those of a framework. The session's mu guards them.
type launches struct {
	byTask  map[api.TaskID]*launch
	held    []*launch              // those that have fallen through, in the order in which they did
	leaving map[api.TaskID]*launch // those that have begun, and are in the store still
	spent   []*record              // those in the store of which all launches have begun
	records int                    // how many were made
}

func newLaunches() launches {
	return launches{byTask: make(map[api.TaskID]*launch), leaving: make(map[api.TaskID]*launch)}
}

func (l *launches) add(one *launch) {
	for _, task := range one.operation.Tasks {
		l.byTask[task.ID] = one
	}
}

// wants says whether a launch that fell through waits for offers of this place.
func (l *launches) wants(at place) bool {
	return slices.ContainsFunc(l.held, func(one *launch) bool { return one.place == at })
}

// waitIn says whether a launch that fell through waits for offers of the role.
func (l *launches) waitIn(role api.Role) bool {
	return slices.ContainsFunc(l.held, func(one *launch) bool { return one.role == role })
}

// hear notes what a status says of a launch, and returns it; nil: the task has begun before. fell says that the task
// never began, through no fault of its own.
func (l *launches) hear(status *api.Status) (one *launch, fell bool) {
	if one = l.byTask[status.Task]; one == nil {
		return nil, false
	}
	status.Agent = cmp.Or(status.Agent, one.agent)
	switch {
	case status.State == api.TaskStaging: // on its way still
		return nil, false
	case status.State == api.TaskDropped && slices.Contains(fallReasons, status.Reason), status.State == api.TaskUnknown && one.asked:
		if one.fallen == nil {
			one.fallen = make(map[api.TaskID]api.Status)
		}
		one.fallen[status.Task] = *status
		return one, true
	}
	return one, false
}

// fallReasons are told of a task that never began, and that the same agent may well begin the next time.
var fallReasons = []api.Reason{api.ReasonInvalidOffers, api.ReasonAgentDisconnected, api.ReasonAgentRestarted, api.ReasonReconciliation}

// hold repeats a launch that fell through as soon as its agent is offered.
func (s *session) hold(one *launch) error {
	s.mu.Lock()
	if !one.hasFallen() || slices.Contains(s.launches.held, one) { // a group has to fall as a whole
		s.mu.Unlock()
		return nil
	}
	if one.until.IsZero() {
		one.until = time.Now().Add(holdTimeout)
	}
	s.launches.held = append(s.launches.held, one)
	s.roles.wake(one.role)
	s.mu.Unlock()
	s.client.After(0, s.relaunch)
	s.client.After(holdTimeout, s.relaunch)
	return s.client.Revive(one.role) // ends the filters that what was left of its offers has got
}

// tellFallen tells of the tasks of a launch that have fallen through.
func (s *session) tellFallen(one *launch) {
	for _, task := range one.operation.Tasks {
		if status, fell := one.fallen[task.ID]; fell {
			status.Number, status.State = 0, api.TaskDropped // it is acknowledged already, and nobody else tells it
			if status.Reason == api.ReasonReconciliation {   // which the framework has not asked for
				status.Reason = api.ReasonAgentDisconnected
			}
			s.tell(status)
		}
	}
}

// tell tells a status that needs no acknowledgement, when it may be told.
func (s *session) tell(status api.Status) {
	s.mu.Lock()
	written := s.framework.WriteStatus(status, "")
	s.mu.Unlock()
	s.updateInTurn(status, written)
}

// relaunch repeats what fell through in the offers of its agents, tells of what was held for too long, and then shows
// the framework the offers that are left. It runs between two callbacks: an ID can't be launched again before the end of
// its former launch was handled.
func (s *session) relaunch() {
	s.giveUpLate()
	s.mu.Lock()
	var rescinded []api.OfferID
	var answers []api.Answer
	for _, at := range s.launches.places() {
		if answer, lost := s.fill(at); len(answer.Operations) > 0 {
			answers, rescinded = append(answers, answer), append(rescinded, lost...)
		}
	}
	shown := s.offers.unhide(s.launches.wants)
	quiet := s.roles.settle(s.launches.waitIn)
	refused := slices.DeleteFunc(slices.Clone(shown), func(offer api.Offer) bool { return !s.roles.suppressed[offer.Role] })
	var err error
	if len(quiet) > 0 { // for the SDK none means all
		err = s.client.Suppress(quiet...) // first, so that nothing is offered of what the answers leave
	}
	for _, answer := range answers {
		_ = s.client.Answer(answer) // it fails only when Run has ended; what is in the store is then for the next gateway
	}
	s.mu.Unlock()
	s.logged(err)
	for _, id := range rescinded {
		s.send(rescindEvent(id))
	}
	s.logged(s.decline(idsOf(refused), nil))
	s.show(s.gateway.life, slices.DeleteFunc(shown, func(offer api.Offer) bool { return slices.Contains(idsOf(refused), offer.ID) }))
}

// logged notes an error of a call that the framework has not asked for.
func (s *session) logged(err error) {
	if err != nil {
		s.gateway.log.Warn("a launch can't be repeated", "framework", string(s.id()), "error", err)
	}
}

// giveUpLate tells of the launches that were held for too long.
func (s *session) giveUpLate() {
	now := time.Now()
	s.mu.Lock()
	late := slices.DeleteFunc(slices.Clone(s.launches.held), func(one *launch) bool { return now.Before(one.until) })
	for _, one := range late {
		s.takeOut(one)
	}
	s.mu.Unlock()
	for _, one := range late {
		s.tellFallen(one)
	}
}

// places lists where the launches belong that have fallen through.
func (l *launches) places() []place {
	places := make(map[place]bool)
	for _, one := range l.held {
		places[one.place] = true
	}
	return slices.SortedFunc(maps.Keys(places), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.role, b.role))
	})
}

// fill returns the answer that repeats the launches of a place for which its open offers have room, without operations if
// there are none, and those of the offers that the framework has been shown. The caller holds mu.
func (s *session) fill(at place) (answer api.Answer, rescinded []api.OfferID) {
	offers := s.offers.at(at)
	bin := joined(offers)
	answer = api.Answer{Offers: idsOf(offers), Filter: api.NoFilter}
	var sent []*launch
	for _, one := range s.launches.held {
		with := *bin
		with.Tasks = slices.Clone(bin.Tasks)
		if one.place == at && !slices.ContainsFunc(one.operation.Tasks, func(task api.Task) bool { return !with.Put(task) }) {
			bin, sent = &with, append(sent, one)
			answer.Operations = append(answer.Operations, one.operation)
		}
	}
	if len(sent) == 0 {
		return answer, nil
	}
	for _, one := range sent {
		one.fallen, one.asked = nil, false
		s.launches.held = slices.DeleteFunc(s.launches.held, func(other *launch) bool { return other == one })
	}
	for _, id := range answer.Offers {
		if s.offers.lose(id) {
			rescinded = append(rescinded, id)
		}
	}
	return answer, rescinded
}

// joined is one bin for all offers of a place.
func joined(offers []api.Offer) *pack.Bin {
	bin := new(pack.Bin)
	for i, offer := range offers {
		if i == 0 {
			bin.Offer = offer
		}
		bin.Left = bin.Left.Plus(offer.Resources)
	}
	return bin
}

// killHeld ends a launch that has fallen through; false: no such launch has this task.
func (s *session) killHeld(id api.TaskID) bool {
	s.mu.Lock()
	one := s.launches.byTask[id]
	if one == nil || !one.hasFallen() {
		s.mu.Unlock()
		return false
	}
	s.takeOut(one)
	s.mu.Unlock()
	for _, task := range one.operation.Tasks {
		s.tell(api.Status{
			Task: task.ID, Agent: one.agent, State: api.TaskKilled, Source: api.MoverMaster, At: time.Now(),
			Message: "Killed before delivery to the agent",
		})
	}
	return true
}

// tasksOf returns the tasks that an operation launches.
func tasksOf(operation *mesosv1.Offer_Operation) []*mesosv1.TaskInfo {
	return append(operation.GetLaunch().GetTaskInfos(), operation.GetLaunchGroup().GetTaskGroup().GetTasks()...)
}

// readLaunches reads the tasks of an operation: each is a launch by itself, or all are one if they are a group. Of what
// can't be launched the framework is told the end.
func (s *session) readLaunches(at place, operation *mesosv1.Offer_Operation) []*launch {
	s.mu.Lock()
	how := translate.Launch{Framework: s.framework.Info, Adapter: s.gateway.config.Adapter}
	s.mu.Unlock()
	infos := tasksOf(operation)
	group := operation.GetType() == mesosv1.Offer_Operation_LAUNCH_GROUP
	if group {
		how.Executor = operation.GetLaunchGroup().GetExecutor()
		for _, info := range infos {
			how.Group = append(how.Group, info.GetTaskId().GetValue())
		}
	}
	var list []*launch
	var tasks []api.Task
	var wrong error
	for _, info := range infos {
		task, err := how.ReadTask(info)
		if err == nil {
			err = s.checkTask(info, at.agent)
		}
		switch {
		case group:
			wrong = cmp.Or(wrong, err)
			tasks = append(tasks, task)
		case err != nil:
			s.refuseTask(info, api.TaskError, api.ReasonTaskInvalid, err.Error())
		default:
			written := &mesosv1.Offer_Operation{Type: operation.Type, Launch: &mesosv1.Offer_Operation_Launch{TaskInfos: []*mesosv1.TaskInfo{info}}}
			list = append(list, &launch{written: written, operation: api.Operation{Kind: api.OpLaunch, Tasks: []api.Task{task}}, place: at})
		}
	}
	if !group {
		return list
	}
	if wrong == nil {
		wrong = api.CheckTaskGroup(tasks)
	}
	if wrong != nil {
		for _, info := range infos {
			s.refuseTask(info, api.TaskError, api.ReasonTaskInvalid, wrong.Error())
		}
		return nil
	}
	return []*launch{{written: operation, operation: api.Operation{Kind: api.OpLaunchGroup, Tasks: tasks}, place: at}}
}

// checkTask checks what Mesos checks of a task beside its description.
func (s *session) checkTask(info *mesosv1.TaskInfo, agent api.AgentID) error {
	if named := info.GetAgentId().GetValue(); named != string(agent) {
		return fmt.Errorf("Task uses invalid agent %s while agent %s is expected", named, agent) //nolint:staticcheck // Mesos's words
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.launches.byTask[translate.ReadTaskID(info.GetTaskId())] != nil {
		return fmt.Errorf("Task has duplicate ID: %s", info.GetTaskId().GetValue()) //nolint:staticcheck // Mesos's words
	}
	return nil
}

func rescindEvent(id api.OfferID) *schedulerv1.Event {
	return &schedulerv1.Event{Type: schedulerv1.Event_RESCIND.Enum(), Rescind: &schedulerv1.Event_Rescind{OfferId: &mesosv1.OfferID{Value: proto.String(string(id))}}}
}
