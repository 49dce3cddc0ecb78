package core

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
)

// A task may say for how long it runs at most (MaxCompletionTime). The time begins when it was first RUNNING. While
// this process lives it is measured by the monotonic clock, over a restart of the agent by the wall clock; one that was
// set back meanwhile gives the task all of its time once more, and never more than that. (Protocol rule R43.)

// watchCompletion has a task that has begun to run looked at when its time is over.
func (b *base) watchCompletion(t *task) {
	if t.launch.Began.IsZero() || !t.deadline.IsZero() || t.ended() {
		return
	}
	ran := max(b.now.Sub(t.launch.Began), 0)
	t.deadline = b.now.Add(max(t.launch.Task.MaxCompletionTime-ran, 0))
	b.wakeAt(t.deadline, timer{kind: timerCompletion, task: t.ref})
}

// completionDue kills a task whose time is over. One that is being killed keeps the grace it has.
func (k *kills) completionDue(ref api.TaskRef) {
	t := k.state.tasks[ref]
	if t == nil || t.ended() || t.kill != nil || t.deadline.IsZero() || k.now.Before(t.deadline) {
		return
	}
	k.storeKill(t, 0, api.ReasonMaxCompletionTime)
}

// killedAs is the state and reason of a task that has ended because it was killed. It is FAILED where the task is to
// blame: its time is over, or it has outgrown its disk.
func (t *task) killedAs(why string) (api.TaskState, api.Reason, string) {
	var fault string
	switch t.kill.Reason {
	case api.ReasonMaxCompletionTime:
		fault = fmt.Sprintf("it had run for its longest time of %v", t.launch.Task.MaxCompletionTime)
	case api.ReasonDiskLimit:
		fault = fmt.Sprintf("its sandbox had more than the %s of disk that it asked for", megabytes(t.diskMax()))
	case api.ReasonTaskGroupFailed:
		return api.TaskKilled, t.kill.Reason, strings.TrimSuffix(t.kill.Why+": "+why, ": ")
	default:
		return api.TaskKilled, t.kill.Reason, why
	}
	if why != "" {
		fault += ": " + why
	}
	return api.TaskFailed, t.kill.Reason, fault
}
