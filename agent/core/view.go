package core

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// The methods below are what the shell and readers may ask between two events. They do not change the core.

// Wake returns when the core wants to be woken, or zero for never. The shell asks after every batch.
func (c *Core) Wake() time.Time { return c.timers.Next() }

// Records returns as few records as possible that make the core's durable state. They cover all records that the core
// has asked to be written.
func (c *Core) Records() []Record { return c.state.records() }

// Identity returns who the agent is now.
func (c *Core) Identity() Identity { return c.state.identity }

// Runs lists the runs of executors that had a process, so that the shell can look for these before Started.
func (c *Core) Runs() []ExecutorStarted {
	var runs []ExecutorStarted
	for _, e := range c.state.executorsInOrder() {
		if e.started.Process.PID != 0 {
			runs = append(runs, e.started)
		}
	}
	return runs
}

// Held is what a run of an executor holds: its own resources, and the tasks that it may have been handed and that have
// not ended.
type Held struct {
	Executor  api.ExecutorRef
	Builtin   bool
	Resources api.Resources
	Tasks     []api.Task
	GPUs      map[api.TaskID][]uint32 // the GPUs of its tasks, by index
}

// Held lists what all executors that have been started hold.
func (c *Core) Held() []Held {
	var all []Held
	for _, e := range c.state.executorsInOrder() {
		if e.started.Process.PID == 0 {
			continue
		}
		held := Held{Executor: e.ref(), Builtin: e.starting.Builtin, Resources: e.starting.Executor.Resources}
		for _, t := range e.tasksInOrder() {
			if t.handed {
				held.Tasks = append(held.Tasks, t.launch.Task)
				held.holdGPUs(t)
			}
		}
		all = append(all, held)
	}
	return all
}

func (h *Held) holdGPUs(t *task) {
	if len(t.launch.GPUs) == 0 {
		return
	}
	if h.GPUs == nil {
		h.GPUs = map[api.TaskID][]uint32{}
	}
	h.GPUs[t.ref.Task] = t.launch.GPUs
}

// Imaged is a task that has not ended and has an image.
type Imaged struct {
	Task   api.TaskRef
	Folder string
}

// Imaged lists all tasks that have not ended and have an image.
func (c *Core) Imaged() []Imaged {
	var all []Imaged
	for _, t := range c.state.tasksInOrder() {
		if !t.ended() && t.launch.Task.Image != "" {
			all = append(all, Imaged{t.ref, c.taskFolder(t.executor, t.ref.Task)})
		}
	}
	return all
}

// Stranger returns why a subscription that begins with this page is refused, before its other pages are read; nil if it
// is not refused.
func (c *Core) Stranger(s protocol.SubscribeExecutor) *api.Error {
	return c.executors.refuseStranger(c.state.executors[s.ExecutorRef], s)
}

// TaskView is what readers of a task's output need to know.
type TaskView struct {
	Sandbox         string
	ExecutorSandbox string // of the executor that runs it, or ran it
	Ended           bool
	// Process is one of the task's own processes, or the executor's if the task has none; zero: there is none.
	Process Process
	// Volumes and Shared are set for a task that has not ended. Shared is the folder of its group; "" if it has no
	// group.
	Volumes []api.VolumeID
	Shared  string
}

// Task looks a task up, also one that has ended and whose sandbox is still there.
func (c *Core) Task(ref api.TaskRef) (TaskView, bool) {
	if t := c.state.tasks[ref]; t != nil {
		view := c.taskView(t.executor, ref.Task, t.ended())
		view.Volumes, view.Shared = volumesIn(t.launch.Resources), c.sharedFolder(t)
		if e := c.state.executors[t.executor]; !t.ended() && t.group.PID != 0 {
			view.Process = t.group
		} else if !t.ended() && t.latest.State != api.TaskStaging && e != nil && t.executor.Executor != api.CommandExecutor {
			view.Process = e.started.Process
		}
		return view, true
	}
	if _, known := c.state.stubbed[ref]; !known {
		return TaskView{}, false
	}
	for _, stub := range c.state.stubs {
		if stub.TaskRef == ref {
			executor := api.ExecutorRef{Framework: ref.Framework, Executor: stub.Status.Executor}
			return c.taskView(executor, ref.Task, true), true
		}
	}
	return TaskView{}, false
}

func (c *Core) taskView(executor api.ExecutorRef, task api.TaskID, ended bool) TaskView {
	return TaskView{Sandbox: c.taskFolder(executor, task), ExecutorSandbox: c.executorFolder(executor), Ended: ended}
}

// Folders returns the sandboxes of executors and tasks that are in use or kept.
func (c *Core) Folders() map[string]bool {
	folders := map[string]bool{}
	keep := func(executor api.ExecutorRef, task api.TaskID) {
		folders[c.executorFolder(executor)] = true
		folders[c.taskFolder(executor, task)] = true
	}
	for _, e := range c.state.executorsInOrder() {
		folders[c.executorFolder(e.ref())] = true
	}
	for _, t := range c.state.tasksInOrder() {
		if folders[c.executorFolder(t.executor)] = true; !c.sandboxes.emptied[t.ref] {
			keep(t.executor, t.ref.Task)
		}
	}
	for _, stub := range c.state.stubs {
		keep(executorOf(stub), stub.Task)
	}
	return folders
}

// SecretFolders returns the sandboxes of tasks that have not ended and are given secrets as files.
func (c *Core) SecretFolders() map[string]bool {
	folders := map[string]bool{}
	for _, t := range c.state.tasks { // order: irrelevant because a map is made
		if !t.ended() && len(t.secretFiles()) > 0 {
			folders[c.taskFolder(t.executor, t.ref.Task)] = true
		}
	}
	return folders
}

// UnneededVolumes lists the agent's volumes that neither the executor nor any of its tasks holds.
func (c *Core) UnneededVolumes(ref api.ExecutorRef) (ids []api.VolumeID) {
	e := c.state.executors[ref]
	if e == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		if !e.holds(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Sandbox is a folder that is being written to, or was.
type Sandbox struct {
	Task   api.TaskRef // the zero value: the folder is an executor's own, or a volume
	Volume api.VolumeID
	Folder string // of a volume "": the shell knows where it is
	// DiskMax is how many bytes it may take; 0: no limit was given.
	DiskMax int64
	// Ended says that nothing more is written there and that its size has not been measured since.
	Ended bool
}

// Sandboxes lists those of living executors and tasks, those of ended tasks that were not measured yet, and volumes.
func (c *Core) Sandboxes() []Sandbox {
	var all []Sandbox
	for _, e := range c.state.executorsInOrder() {
		all = append(all, Sandbox{Folder: c.executorFolder(e.ref())})
	}
	for _, t := range c.state.tasksInOrder() {
		one := Sandbox{Task: t.ref, Folder: c.taskFolder(t.executor, t.ref.Task)}
		if !t.ended() && t.kill == nil {
			one.DiskMax = t.diskMax()
		}
		all = append(all, one)
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		if one, is := c.volumes.measurable(id); is {
			all = append(all, one)
		}
	}
	for _, stub := range c.state.stubs {
		if _, known := c.sandboxes.bytes[stub.TaskRef]; !known {
			all = append(all, Sandbox{Task: stub.TaskRef, Folder: c.taskFolder(executorOf(stub), stub.Task), Ended: true})
		}
	}
	return all
}

// Picture is what is on the agent, for people.
type Picture struct {
	Agent      api.AgentID       `json:"agent"`
	Registered bool              `json:"registered"` // it has a session with the leader
	Resources  string            `json:"resources"`  // what it has, with what was reserved when it was started
	Executors  []PictureExecutor `json:"executors"`
	Tasks      []PictureTask     `json:"tasks"`
	Volumes    []PictureVolume   `json:"volumes"`
	// Kept is how many ended tasks are remembered, and KeptBytes the size of their sandboxes, as far as they were
	// measured.
	Kept      int   `json:"kept"`
	KeptBytes int64 `json:"kept_bytes"`
}

// PictureExecutor is an executor in a Picture.
type PictureExecutor struct {
	Framework api.FrameworkID `json:"framework_id"`
	Executor  api.ExecutorID  `json:"id"`
	Phase     string          `json:"phase"`
	PID       int             `json:"pid,omitempty"`
	Tasks     int             `json:"tasks"`
	Connected bool            `json:"connected"`
	Resources string          `json:"resources"` // its own, without those of its tasks
	Folder    string          `json:"folder"`
}

// PictureVolume is a persistent volume in a Picture.
type PictureVolume struct {
	Volume     api.VolumeID `json:"id"`
	Generation uint64       `json:"generation"`
	// Lost says that its folder is not there, so that no task can have it. Only the shell knows.
	Lost bool `json:"lost,omitempty"`
}

// PictureTask is a task in a Picture. It leaves out what the task runs: those who know who may see that add it.
type PictureTask struct {
	Framework api.FrameworkID `json:"framework_id"`
	Task      api.TaskID      `json:"id"`
	Executor  api.ExecutorID  `json:"executor_id"`
	State     string          `json:"state"`
	Reason    string          `json:"reason,omitempty"`
	Group     int             `json:"process_group,omitempty"`
	Resources string          `json:"resources"`
	GPUs      []uint32        `json:"gpus,omitempty"`
	Folder    string          `json:"folder"`
	// Unacknowledged is how many of its statuses the leader has not acknowledged.
	Unacknowledged int `json:"unacknowledged"`
}

// Picture returns what is on the agent now.
func (c *Core) Picture() Picture {
	p := Picture{
		Agent: c.state.identity.Agent, Registered: c.leader.registered, Resources: c.config.Agent.Resources.String(), Kept: len(c.state.stubs), KeptBytes: c.sandboxes.sum,
		Executors: []PictureExecutor{}, Tasks: []PictureTask{}, Volumes: []PictureVolume{},
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.volumes)) {
		p.Volumes = append(p.Volumes, PictureVolume{Volume: id, Generation: c.state.volumes[id].Generation})
	}
	for _, e := range c.state.executorsInOrder() {
		p.Executors = append(p.Executors, PictureExecutor{
			Framework: e.ref().Framework, Executor: e.ref().Executor, Phase: e.phase.String(), PID: e.started.Process.PID,
			Tasks: len(e.tasks), Connected: e.conn != 0, Resources: e.starting.Resources.String(), Folder: c.executorFolder(e.ref()),
		})
	}
	for _, t := range c.state.tasksInOrder() {
		one := PictureTask{
			Framework: t.ref.Framework, Task: t.ref.Task, Executor: t.executor.Executor, State: t.latest.State.String(),
			Group: t.group.PID, Resources: t.launch.Resources.String(), GPUs: t.launch.GPUs, Folder: c.taskFolder(t.executor, t.ref.Task), Unacknowledged: len(t.unacked),
		}
		if t.latest.Reason != api.ReasonNone {
			one.Reason = t.latest.Reason.String()
		}
		p.Tasks = append(p.Tasks, one)
	}
	return p
}

// ExecutorFolder returns the folder in which an executor works; the folders of its tasks are below it.
func (c *Core) ExecutorFolder(ref api.ExecutorRef) string { return c.executorFolder(ref) }

// HasVolume says whether the agent has a volume. Its data is in the folder of that name.
func (c *Core) HasVolume(id api.VolumeID) bool {
	_, has := c.state.volumes[id]
	return has
}

// Counts are numbers for metrics.
type Counts struct {
	Tasks, Executors, Flying int
	Revoked                  uint64 // tasks, since this process began
	Illegal                  uint64 // statuses of executors that were no legal move, since this process began
	Unheard                  uint64 // messages for which there was no session, since this process began
	Registered               bool
}

// Counts returns them. It is cheap enough to be called after every batch.
func (c *Core) Counts() Counts {
	return Counts{
		Tasks: len(c.state.tasks), Executors: len(c.state.executors), Flying: c.leader.window.tasks, Registered: c.leader.registered,
		Revoked: c.pressure.revoked, Unheard: c.executors.unheard, Illegal: c.statuses.illegal,
	}
}
