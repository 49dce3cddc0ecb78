package core

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// state is what the records make. Only apply changes it, both when a record is written and when it is read after a
// restart, so that both lead to the same state.
type state struct {
	identity   Identity
	frameworks map[api.FrameworkID]*framework
	tasks      map[api.TaskRef]*task
	executors  map[api.ExecutorRef]*executor
	stubs      []protocol.TaskStub           // oldest end first; at most Config.StubsMax
	stubbed    map[api.TaskRef]api.TaskState // how the task of each stub has ended
	groups     map[api.TaskGroupID][]*task   // the tasks of each group that are still there
	sharers    map[api.TaskRef]struct{}      // the tasks whose sandbox holds the folder of such a group
	volumes    map[api.VolumeID]protocol.Volume
	gpus       map[uint32]api.TaskRef // the tasks that have not ended and hold a GPU, by its index
	runs       uint64                 // the highest number of a run
	launches   uint64                 // how many launches there were; gives tasks their order
	// forgotten holds executors that ended, each with how many launches there had been then. It is kept while records
	// are read. It is nil in a core that runs, which settles the tasks of an ended executor in the same step.
	forgotten map[api.ExecutorRef]uint64
}

func newState() *state {
	return &state{
		frameworks: map[api.FrameworkID]*framework{},
		executors:  map[api.ExecutorRef]*executor{},
		tasks:      map[api.TaskRef]*task{},
		groups:     map[api.TaskGroupID][]*task{},
		sharers:    map[api.TaskRef]struct{}{},
		stubbed:    map[api.TaskRef]api.TaskState{},
		volumes:    map[api.VolumeID]protocol.Volume{},
		gpus:       map[uint32]api.TaskRef{},
		forgotten:  map[api.ExecutorRef]uint64{},
	}
}

// allRead marks the tasks whose executor was forgotten before the tasks were settled.
func (s *state) allRead() {
	for _, t := range s.tasks { // order: irrelevant because each is marked by itself
		t.executorForgotten = !t.ended() && s.executors[t.executor] == nil && t.order <= s.forgotten[t.executor]
	}
	s.forgotten = nil
}

// framework is the agent's copy of a framework that has something here.
type framework struct {
	api.Framework
	removed bool
	// users counts its executors and tasks. The copy is forgotten with the last one.
	users int
}

// apply applies one record. A record about something unknown changes nothing. A torn end of the log can't cut off an
// earlier record and leave a later one, but a checkpoint is input, and no input may stop the process.
func (s *state) apply(record Record) {
	switch r := record.(type) {
	case Identity:
		s.identity = r
	case VolumeKept:
		s.volumes[r.Volume.Volume] = r.Volume
	case VolumeForgotten:
		delete(s.volumes, r.Volume)
	case FrameworkKept:
		s.keepFramework(r.Framework)
	case FrameworkRemoved:
		if known := s.frameworks[r.Framework]; known != nil {
			known.removed = true
		}
	case FrameworkForgotten:
		delete(s.frameworks, r.Framework)
	case ExecutorStarting:
		s.addRun(r)
	case ExecutorStarted:
		if e := s.run(r.Run); e != nil {
			e.started = r
		}
	case ExecutorStopping:
		if e := s.run(r.Run); e != nil && e.order == nil {
			e.order, e.orderedAt, e.reason, e.why = &r, s.launches, r.Reason, cmp.Or(e.why, r.Why)
		}
	case ExecutorForgotten:
		s.forgetRun(r.Run)
	case TaskLaunched:
		s.addTask(r)
	case TaskKilled:
		if t := s.tasks[r.Task]; t != nil {
			t.kill = &r
		}
	case TaskGroup:
		if t := s.tasks[r.Task]; t != nil {
			t.group = r.Group
		}
	case TaskStatus:
		s.addStatus(r)
	case TaskAcknowledged:
		if t := s.tasks[r.Task]; t != nil {
			s.acknowledge(t, r.Number)
		}
	case StubKept:
		s.addStub(r.Stub)
	case StubForgotten:
		s.dropStub(r.Task)
	}
}

func (s *state) keepFramework(kept api.Framework) {
	if known := s.frameworks[kept.ID]; known != nil {
		known.Framework = kept
		return
	}
	s.frameworks[kept.ID] = &framework{Framework: kept}
}

func (s *state) addRun(r ExecutorStarting) {
	ref := r.Run.Executor
	if s.executors[ref] == nil {
		s.use(ref.Framework, +1)
	}
	s.executors[ref] = &executor{starting: r, tasks: map[api.TaskID]*task{}}
	s.runs = max(s.runs, r.Run.Number)
}

func (s *state) forgetRun(run Run) {
	if s.run(run) == nil {
		return
	}
	delete(s.executors, run.Executor)
	if s.forgotten != nil {
		s.forgotten[run.Executor] = s.launches
	}
	s.use(run.Executor.Framework, -1)
}

func (s *state) addTask(r TaskLaunched) {
	t := newTask(r, s.identity.Agent)
	if s.tasks[t.ref] != nil {
		return
	}
	s.launches++
	t.order = s.launches
	s.tasks[t.ref] = t
	s.joinGroup(t)
	s.holdGPUs(t)
	s.use(r.Framework, +1)
}

func (s *state) addStatus(r TaskStatus) {
	t := s.tasks[r.Status.Ref()]
	if t == nil {
		return
	}
	if t.addStatus(r); t.ended() {
		s.freeGPUs(t)
	}
}

// acknowledge settles statuses up to a number. A task that has ended and has no more of them becomes a stub.
func (s *state) acknowledge(t *task, number uint64) {
	t.unacked = slices.DeleteFunc(t.unacked, func(status api.Status) bool { return status.Number <= number })
	if !t.ended() || len(t.unacked) > 0 {
		return
	}
	delete(s.tasks, t.ref)
	s.leaveGroup(t)
	s.use(t.ref.Framework, -1)
	s.addStub(protocol.TaskStub{
		TaskRef: t.ref, Name: t.launch.Task.DisplayName(), Role: t.launch.Role, Owner: t.launch.Task.Owner, Status: t.latest, LaunchedAt: t.launch.At,
		Resources: t.launch.Resources, Job: t.launch.Task.Labels[api.JobLabel],
	})
}

func (s *state) addStub(stub protocol.TaskStub) {
	if _, known := s.stubbed[stub.TaskRef]; known {
		return
	}
	s.stubbed[stub.TaskRef] = stub.Status.State
	s.stubs = append(s.stubs, stub)
}

// usedUp says whether the ID is that of a task that has ended and may have run. One that was DROPPED never did, so its ID
// may be launched again, unless tasks that live still need its sandbox. (Protocol rule R9.)
func (s *state) usedUp(ref api.TaskRef) bool {
	state, known := s.stubbed[ref]
	_, shares := s.sharers[ref]
	return known && (state != api.TaskDropped || shares)
}

func (s *state) dropStub(ref api.TaskRef) {
	delete(s.stubbed, ref)
	i := slices.IndexFunc(s.stubs, func(stub protocol.TaskStub) bool { return stub.TaskRef == ref })
	switch {
	case i == 0: // the usual case: the oldest goes first
		s.stubs[0] = protocol.TaskStub{}
		s.stubs = s.stubs[1:]
	case i > 0:
		s.stubs = slices.Delete(s.stubs, i, i+1)
	}
}

func (s *state) use(id api.FrameworkID, change int) {
	if f := s.frameworks[id]; f != nil {
		f.users += change
	}
}

// launched returns the task of exactly that launch, or nil if it has been forgotten.
func (s *state) launched(l TaskLaunch) *task {
	if t := s.tasks[l.TaskRef]; t != nil && t.launch.id() == l.Launch {
		return t
	}
	return nil
}

// run returns the executor of exactly that run, or nil.
func (s *state) run(run Run) *executor {
	if e := s.executors[run.Executor]; e != nil && e.starting.Run.Number == run.Number {
		return e
	}
	return nil
}

// tasksInOrder returns the tasks in the order of their launches.
func (s *state) tasksInOrder() []*task {
	return slices.SortedFunc(maps.Values(s.tasks), func(a, b *task) int { return cmp.Compare(a.order, b.order) })
}

func (s *state) executorsInOrder() []*executor {
	return slices.SortedFunc(maps.Values(s.executors), func(a, b *executor) int {
		return cmp.Compare(a.starting.Run.Number, b.starting.Run.Number)
	})
}

// records returns as few records as possible that make the same state as all records so far.
func (s *state) records() []Record {
	records := []Record{s.identity}
	for _, id := range slices.Sorted(maps.Keys(s.volumes)) {
		records = append(records, VolumeKept{s.volumes[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(s.frameworks)) {
		records = append(records, FrameworkKept{s.frameworks[id].Framework})
		if s.frameworks[id].removed {
			records = append(records, FrameworkRemoved{id})
		}
	}
	for _, e := range s.executorsInOrder() {
		records = append(records, e.starting)
		if e.started.Process.PID != 0 {
			records = append(records, e.started)
		}
	}
	ordered := map[*executor]bool{}
	for _, t := range s.tasksInOrder() {
		if e := s.executors[t.executor]; e != nil && !ordered[e] && e.launchedAfterOrder(t) {
			records = append(records, *e.order)
			ordered[e] = true
		}
		records = append(records, t.records()...)
	}
	for _, e := range s.executorsInOrder() {
		if e.order != nil && !ordered[e] {
			records = append(records, *e.order)
		}
	}
	for _, stub := range s.stubs {
		records = append(records, StubKept{stub})
	}
	return records
}
