package core

import (
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Tasks may be launched as one group (R46): all of them or none. The records of the launch are written in one step, so
// that a checkpoint has all of them or none (R35). No task of the group is handed over before all can be. When one ends
// in another state than FINISHED, the others are killed.

// launchGroup accepts all tasks of a group, or refuses all of them.
func (la *launches) launchGroup(e protocol.LaunchGroup) {
	if len(e.Tasks) == 0 {
		return
	}
	tasks := make([]*task, len(e.Tasks))
	for i := range e.Tasks {
		record := la.recordOf(e.Tasks[i])
		record.Group, record.GroupFirst = la.state.identity.Term.MintGroup(e.Tasks[0].Number), e.Tasks[0].Task.ID
		tasks[i] = newTask(record, la.state.identity.Agent)
		if la.dropUnnamed(tasks[i]) {
			return
		}
	}
	if la.refuseGroup(tasks) {
		return
	}
	for i, t := range tasks {
		la.takeOn(t.launch, e.Tasks[i].Framework)
	}
}

// refuseGroup refuses a whole group when one of its tasks can't be accepted. A repetition of the same launch is
// ignored.
func (la *launches) refuseGroup(tasks []*task) (refused bool) {
	if known := la.state.tasks[tasks[0].ref]; known != nil && known.launch.Group == tasks[0].launch.Group {
		return true
	}
	wishes := make([]api.Task, len(tasks))
	var starts api.Resources // resources of the executor, if this group starts it
	for i, t := range tasks {
		wishes[i] = t.launch.Task
		starts = starts.Plus(t.launch.ExecutorResources)
	}
	if err := api.CheckTaskGroup(wishes); err != nil {
		for _, t := range tasks {
			la.refuseLaunch(t, verdict{api.TaskError, api.ReasonTaskInvalid, err.Error()})
		}
		return true
	}
	for at, t := range tasks {
		if la.refuseKnown(t) {
			la.refuseOthers(tasks, at, "the agent knows its ID already")
			return true
		}
		if no := la.judgeLaunch(t, starts, tasks...); no.reason != api.ReasonNone {
			la.refuseLaunch(t, no)
			la.refuseOthers(tasks, at, no.why)
			return true
		}
	}
	return false
}

// refuseOthers refuses the tasks of a group other than the one that is the reason for the refusal.
func (la *launches) refuseOthers(tasks []*task, culprit int, why string) {
	why = fmt.Sprintf("task %s of its group was refused: %s", tasks[culprit].ref.Task, why)
	for i, t := range tasks {
		if i != culprit && !la.refuseKnown(t) {
			la.refuseLaunch(t, verdict{api.TaskDropped, api.ReasonTaskGroupFailed, why})
		}
	}
}

// together returns the tasks that start at the same time as t: those of its group that are still there, or t alone.
func (s *state) together(t *task) []*task {
	if group := s.groups[t.launch.Group]; t.launch.Group != "" {
		return group
	}
	return []*task{t}
}

// sharedFolder returns the folder that the tasks of a group share; "" for a task that was launched by itself. It is in
// the sandbox of the group's first task and counts against the disk of that task.
func (b *base) sharedFolder(t *task) string {
	if t.launch.Group == "" {
		return ""
	}
	return b.taskFolder(t.executor, t.launch.GroupFirst) + "/shared"
}

// sharerOf returns the first task of t's group, which may not be there any more.
func sharerOf(t *task) api.TaskRef {
	return api.TaskRef{Framework: t.ref.Framework, Task: t.launch.GroupFirst}
}

// joinGroup and leaveGroup keep the list of a group's tasks that are there, in the order of their launch.
func (s *state) joinGroup(t *task) {
	if group := t.launch.Group; group != "" {
		s.groups[group] = append(s.groups[group], t)
		s.sharers[sharerOf(t)] = struct{}{}
	}
}

func (s *state) leaveGroup(t *task) {
	group := t.launch.Group
	if group == "" {
		return
	}
	left := s.groups[group][:0:0]
	for _, other := range s.groups[group] {
		if other != t {
			left = append(left, other)
		}
	}
	if s.groups[group] = left; len(left) == 0 {
		delete(s.groups, group)
		delete(s.sharers, sharerOf(t))
	}
}

// endGroup kills the other tasks of the group of a task that has ended badly.
func (k *kills) endGroup(t *task) {
	why := fmt.Sprintf("task %s of its group has ended %s", t.ref.Task, t.latest.State)
	for _, other := range k.state.groups[t.launch.Group] {
		if !other.ended() && other.kill == nil {
			k.writeKill(other, TaskKilled{Task: other.ref, Grace: k.graceOf(other, 0), Reason: api.ReasonTaskGroupFailed, Why: why})
		}
	}
}

// endGroupIfFailed kills the tasks of a group if one of them is known to have ended badly.
func (k *kills) endGroupIfFailed(id api.TaskGroupID) {
	for _, t := range k.state.groups[id] {
		if t.endedBadly() {
			k.endGroup(t)
			return
		}
	}
}

// endedBadly says whether the task is in a group and has ended in another state than FINISHED, so that the others must
// end.
func (t *task) endedBadly() bool {
	return t.launch.Group != "" && t.ended() && t.latest.State != api.TaskFinished
}
