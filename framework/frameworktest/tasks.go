package frameworktest

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/executor"
)

// refOf returns the address of a task of the framework.
func (f *Framework) refOf(task api.TaskID) api.TaskRef {
	return api.TaskRef{Framework: f.ID(), Task: task}
}

// EndTask ends a played task now, in the way that how says, whatever its script says: Play{ExitCode: 137} fails it,
// Play{Crash: true} ends its executor too. It waits until the task runs, and then until it no longer runs.
func (f *Framework) EndTask(task api.TaskID, how Play) {
	h := f.handle
	h.t.Helper()
	host := f.hostOf(task)
	ref := f.refOf(task)
	end := host.endOf(ref)
	if end == nil {
		h.t.Fatalf("%s is run by a function in Cluster.Executors, which alone ends it", ref)
	}
	how.Duration, how.Forever = 0, false
	h.journal.notePlay(ref, &how)
	select {
	case end <- how:
	default: // it is ending already
	}
	h.Await(ref.String()+" to end", func() bool { return !host.runsTask(ref) })
}

// Use sets what a running task really uses from now on, as heartbeats report it; by default it uses what it asked for.
// What tasks leave unused is offered as revocable resources after ten seconds. When all tasks of a machine together use
// nearly all of it, the agent kills tasks with revocable resources (REVOKED).
func (f *Framework) Use(task api.TaskID, used api.Resources) {
	f.handle.t.Helper()
	f.changeHeld(task, func(running *held) { running.uses = &used })
}

// SetHealth sets whether a running task passes its checks from now on, whatever its [Play] says. Its status shows it
// after the next check.
func (f *Framework) SetHealth(task api.TaskID, healthy bool) {
	f.handle.t.Helper()
	ill := !healthy
	f.changeHeld(task, func(running *held) { running.ill = &ill })
}

// changeHeld changes what a running task is like on its machine, if it has not ended meanwhile.
func (f *Framework) changeHeld(task api.TaskID, change func(*held)) {
	f.handle.t.Helper()
	host := f.hostOf(task)
	host.mu.Lock()
	defer host.mu.Unlock()
	if running, ok := host.tasks[f.refOf(task)]; ok {
		change(&running)
		host.tasks[f.refOf(task)] = running
	}
}

// Secrets returns the values of the secrets that a running task was given, by where the task finds each: the name of a
// variable, or "secrets/NAME" for a file. There are no real files, so the function of an executor that needs one must
// ask here, or use a variable.
func (f *Framework) Secrets(task api.TaskID) map[string]string {
	f.handle.t.Helper()
	host := f.hostOf(task)
	host.mu.Lock()
	defer host.mu.Unlock()
	return host.tasks[f.refOf(task)].secrets
}

// secretsOf returns the secrets that the machine's agent has given a task.
func (h *host) secretsOf(task *executor.Task) map[string]string {
	values := make(map[string]string, len(task.Secrets))
	for name, value := range h.launcher.Secrets(task.Sandbox) { // order: irrelevant because the result is a map
		values["secrets/"+name] = string(value)
	}
	for _, secret := range task.Secrets {
		if value, given := task.Secret(secret.Env); given {
			values[secret.Env] = string(value)
		}
	}
	return values
}

// hostOf waits until the task runs, and returns its machine.
func (f *Framework) hostOf(task api.TaskID) *host {
	f.handle.t.Helper()
	var found *host
	f.handle.Await(string(task)+" of "+f.host+" to run on a machine", func() bool {
		if list := f.Statuses(task); len(list) > 0 && list[len(list)-1].State.Terminal() {
			f.handle.t.Fatalf("%s has ended and runs no more\n%s", task, f.handle.Story(f.refOf(task)))
		}
		for _, a := range f.handle.agents {
			if a.host.runsTask(f.refOf(task)) {
				found = a.host
			}
		}
		return found != nil
	})
	return found
}

// runsTask reports whether the task runs on the machine.
func (h *host) runsTask(ref api.TaskRef) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.tasks[ref]
	return ok
}

// endOf returns the channel that tells a played task how to end; nil for any other task.
func (h *host) endOf(ref api.TaskRef) chan Play {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tasks[ref].end
}
