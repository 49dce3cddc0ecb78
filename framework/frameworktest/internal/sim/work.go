package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	"github.com/tenderhq/tender/internal/protocol"
)

// labelOfTry is the label that names the launch of a task, because an ID that was DROPPED may be launched again.
const labelOfTry = "try"

// work is what a framework's user wants: a number of jobs, each tried until it has finished. It is on the user's disk,
// so every instance of the scheduler continues where the last one stopped.
type work struct {
	world   *World
	name    string
	todo    int
	tasks   map[api.TaskID]*job // tasks that were launched and are not known to have ended
	count   int                 // number of tasks so far
	volumes int
	tries   int
	again   []api.TaskID // tasks that were DROPPED and are tried again under the same ID
	habits  habits
	ends    map[protocol.Acknowledgement]bool // ends that an SDK was told, by what acknowledges them
	ended   map[api.TaskID]bool               // tasks of which the user was told an end

	stated  bool      // it states its demand
	resting bool      // it takes no more offers
	own     bool      // some tasks have executors of the framework's own
	faulty  bool      // some tasks have faults that only an agent may notice
	terse   bool      // it states its demand only when that grows, and relies on its launches being counted
	saves   bool      // some answers reserve resources, or make and destroy volumes
	torn    bool      // the framework was removed
	quiet   time.Time // since when it has said that it wants nothing; zero: it wants something
}

// job is one task, as the user knows it.
type job struct {
	id        api.TaskID
	label     string
	framework api.FrameworkID // the framework that launched it
	state     api.TaskState
}

func newWork(w *World, name string, todo int) *work {
	return &work{world: w, name: name, todo: todo, tasks: map[api.TaskID]*job{},
		ends: map[protocol.Acknowledgement]bool{}, ended: map[api.TaskID]bool{}}
}

// jobShape is what each job asks for.
var jobShape = api.Scalars(0.2, 32)

// hearSubscribed states what is wanted, and asks for all tasks, because another instance may have launched them.
func (k *work) hearSubscribed(s *scheduler) {
	if k.torn {
		s.tearDown()
		return
	}
	k.quiet = time.Time{}
	k.sayDemand(s)
	s.askStates(slices.Sorted(maps.Keys(k.tasks))...)
	if k.saves {
		s.stepCore(sdk.OperationsAsked{})
	}
}

func (k *work) sayDemand(s *scheduler) {
	if !k.stated || s.phase != active {
		return
	}
	demand := api.Demand{Role: s.info.Roles[0]}
	if k.todo > 0 && !k.resting {
		demand.Shapes = []api.Shape{{Resources: jobShape, Count: int64(k.todo)}}
		k.quiet = time.Time{}
	} else if k.quiet.IsZero() {
		k.quiet = k.world.now
	}
	s.stateDemand(demand)
}

func (*work) hearRescinded(*scheduler, []api.OfferID) {} // the scheduler has forgotten them, and nothing more has to be done

// hearOffers decides about offers, after a while.
func (k *work) hearOffers(s *scheduler, offers []api.Offer) {
	if k.world.kind && !k.torn && !k.quiet.IsZero() && k.world.now.Sub(k.quiet) > 10*time.Second && offers[0].Role == s.info.Roles[0] {
		k.world.breakStory("%s has said for %v that it wants nothing, and is offered %s", s.name, k.world.now.Sub(k.quiet), offers[0].Resources)
	}
	k.heardSuppressed(s, offers)
	for _, offer := range offers {
		think := k.world.drawPause()
		if k.world.drawChance(50) {
			continue // it forgets this offer
		}
		s.planLater(think, func() { k.answerOffer(s, offer) })
	}
}

func (k *work) answerOffer(s *scheduler, offer api.Offer) {
	var tasks []api.Task
	left := offer.Resources
	for range 1 + k.world.random.IntN(3) {
		if k.todo == len(tasks) || k.resting {
			break
		}
		task := k.makeTask(s)
		k.dressTask(&task, offer)
		ask := task.Resources
		if task.Executor != nil {
			ask = ask.Plus(task.Executor.Resources)
		}
		_, rest, fits := left.Carve(ask)
		if !fits {
			break
		}
		left = rest
		tasks = append(tasks, task)
	}
	filter := api.Filter{Refuse: time.Duration(k.world.drawBetween(-1, 6).Nanoseconds()) * time.Second}
	if len(tasks) == 0 {
		s.declineOffer(offer, filter)
		return
	}
	launch := api.Operation{Kind: api.OpLaunch, Tasks: tasks}
	if len(tasks) > 1 && !k.terse && api.CheckTaskGroup(tasks) == nil && k.world.random.IntN(3) == 0 {
		launch.Kind = api.OpLaunchGroup
	}
	if !s.acceptOffer(offer, k.drawOperations(offer, launch), filter) {
		return
	}
	k.todo -= len(tasks)
	for _, task := range tasks {
		label := task.Labels[labelOfTry]
		k.tasks[task.ID] = &job{id: task.ID, label: label, framework: s.info.ID, state: api.TaskStaging}
		k.world.truth.noteLaunch(s, task, label)
		k.again = slices.DeleteFunc(k.again, func(id api.TaskID) bool { return id == task.ID })
	}
	if !k.terse {
		k.sayDemand(s)
	} else if k.stated && k.todo == 0 && k.quiet.IsZero() {
		k.quiet = k.world.now
	}
}

// makeTask makes a task for the next job.
func (k *work) makeTask(s *scheduler) api.Task {
	k.tries++
	id := api.TaskID(fmt.Sprintf("%s-%d", k.name, k.count+1))
	if len(k.again) > 0 && k.world.random.IntN(2) == 0 && k.tasks[k.again[0]] == nil {
		id = k.again[0]
		k.again = k.again[1:]
	} else {
		k.count++
	}
	task := api.Task{ID: id, Resources: jobShape, Labels: map[string]string{labelOfTry: fmt.Sprintf("%s#%d", id, k.tries)}}
	if !k.own || k.world.random.IntN(2) == 0 {
		task.Command = &api.Command{Shell: "work"}
		if k.world.random.IntN(2) == 0 {
			task.Command.URIs = []api.URI{{Source: "/usr/share/data"}}
		}
		if k.faulty && k.world.random.IntN(6) == 0 {
			task.Command.URIs = []api.URI{{Source: "http://example.org/data"}} // without the checksum that is needed
		}
		return task
	}
	if k.faulty && k.world.random.IntN(6) == 0 {
		return k.faultyTask(task)
	}
	task.Executor = &api.Executor{ID: "own", Command: api.Command{Shell: "serve"}, ShutdownGrace: 2 * time.Second}
	if k.world.random.IntN(2) == 0 {
		task.Executor = &api.Executor{ID: "heavy", Command: api.Command{Shell: "serve"}, Resources: api.Scalars(0.3, 16)}
	}
	return task
}

// faultyTask gives the task an executor of its own, with resources, that can't be started.
func (k *work) faultyTask(task api.Task) api.Task {
	task.Executor = &api.Executor{
		ID: api.ExecutorID(fmt.Sprintf("faulty-%d", k.tries)), Resources: api.Scalars(0.1, 16),
		Command: api.Command{Shell: "serve", URIs: []api.URI{{Source: "http://example.org/serve"}}},
	}
	return task
}

// drawOperations returns what an answer does besides launching: now and then it reserves something for the role or gives it
// back, or makes or destroys a volume on what is reserved.
func (k *work) drawOperations(offer api.Offer, launch api.Operation) []api.Operation {
	if !k.saves || k.world.random.IntN(4) > 0 {
		return []api.Operation{launch}
	}
	var volume api.VolumeID
	for _, item := range offer.Resources.Items() {
		if item.Volume != "" {
			volume = item.Volume
		}
	}
	switch k.world.random.IntN(4) {
	case 0:
		return []api.Operation{{Kind: api.OpReserve, ID: k.nameOperation(), Resources: api.NewResources(
			api.Resource{Label: api.Label{Name: "cpus"}, Scalar: 200}, api.Resource{Label: api.Label{Name: "disk"}, Scalar: 100_000})}, launch}
	case 1:
		return []api.Operation{{Kind: api.OpUnreserve, ID: k.nameOperation(), Resources: api.Scalars(0.1, 0)}, launch}
	case 2:
		k.volumes++
		return []api.Operation{{Kind: api.OpCreate, ID: k.nameOperation(), Volume: api.VolumeID(fmt.Sprintf("%s-v%d", k.name, k.volumes)), Size: 50_000}, launch}
	}
	if volume == "" {
		return []api.Operation{launch}
	}
	return []api.Operation{{Kind: api.OpDestroy, ID: k.nameOperation(), Volume: volume}, launch}
}

func (*work) listInterests() sdk.Interests { return 0 }

func (*work) hearSettled(*scheduler) {}

func (*work) findUnsettled(*scheduler) string { return "" }

func (*work) findUnrest() string { return "" }

// hearUpdate handles a status, now, later or not at all.
func (k *work) hearUpdate(s *scheduler, status api.Status) sdk.Outcome {
	switch {
	case k.world.drawChance(30):
		return sdk.Failed
	case k.habits.slow && k.world.random.IntN(3) == 0:
		k.handleLater(s, status)
		return sdk.Later
	}
	k.handleStatus(s, status)
	return sdk.Handled
}

// handleStatus handles a status that the SDK delivers.
func (k *work) handleStatus(s *scheduler, status api.Status) {
	j := k.tasks[status.Task]
	if k.world.story != nil {
		k.world.tellStory(s.name, "handles %s", describe(status))
	}
	k.ended[status.Task] = k.ended[status.Task] || status.State.Terminal()
	k.world.truth.checkTold(s, j, status)
	if j == nil {
		return
	}
	j.state = status.State
	switch {
	case status.State == api.TaskFinished:
	case !status.State.Settled():
		return
	default:
		k.todo++
		if status.State == api.TaskDropped {
			k.again = append(k.again, j.id)
		}
	}
	delete(k.tasks, status.Task)
	k.sayDemand(s)
}

// hearRemoved begins a new framework, because the old one and its tasks no longer exist.
func (k *work) hearRemoved(s *scheduler) {
	k.world.tellStory(s.name, "its framework was removed")
	for _, id := range slices.Sorted(maps.Keys(k.tasks)) {
		if j := k.tasks[id]; j.framework == s.info.ID { // another instance may have a new framework already
			k.world.truth.noteAbandoned(j.label)
			k.todo++
			delete(k.tasks, id)
		}
	}
	k.again = nil
	for _, other := range k.world.schedulers {
		if other.work == k && other != s {
			k.sayDemand(other) // the other instance may be active already, and there is more to do now
		}
	}
	s.info.ID = ""
	if !k.torn {
		s.startProcess()
	}
}

// killSomeTask asks for the end of one of the tasks.
func (k *work) killSomeTask(s *scheduler) {
	ids := slices.Sorted(maps.Keys(k.tasks))
	if len(ids) > 0 {
		s.stepCore(sdk.KillAsked{Task: ids[k.world.random.IntN(len(ids))]})
	}
}

// noteEnd notes which acknowledgement would be that of an end.
func (k *work) noteEnd(status api.Status) {
	if status.Number > 0 && status.State.Terminal() {
		k.ends[protocol.Acknowledgement{Framework: status.Framework, Task: status.Task, Agent: status.Agent, Number: status.Number}] = true
	}
}

// checkAcknowledged checks that an end is acknowledged only when a user has handled it: if the scheduler is killed behind
// that, nobody tells it again (promise 3).
func (t *truth) checkAcknowledged(s *scheduler, item protocol.Acknowledgement) {
	if s.work.ends[item] && !s.work.ended[item.Task] {
		t.world.breakStory("%s acknowledges the end of %s, of which its user was told none (promise 3)", s.name, item.Task)
	}
}
