package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// takeOver does what a manager does that becomes active.
func (w *world) takeOver() {
	w.keys, w.waiting = map[string]bool{}, nil
	if w.store[HeaderKey] == nil && w.m.Gone { // it was being deleted: the keys left are no job's, its tasks are strays
		clear(w.store)
		w.tellAll()
		return
	}
	m, left, err := Load(w.now, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	w.m = m
	for _, key := range left {
		delete(w.store, key)
	}
	w.step(Woken{})
	for _, id := range m.Kills() {
		w.kill(id)
	}
	w.tellAll()
	for _, id := range m.Unheard() {
		if w.tasks[id] == nil {
			w.step(Heard{api.Status{Task: id, State: api.TaskUnknown}})
		}
	}
	if due := w.m.Wake(); !due.IsZero() && !due.After(w.now) {
		w.step(Woken{})
	}
}

// tellAll tells the manager what the leader knows of all tasks that have not ended.
func (w *world) tellAll() {
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		if task := w.tasks[id]; len(task.told) == 0 && !task.state.Terminal() {
			w.tell(id)
		}
	}
}

// tell tells the manager what the leader knows of a task.
func (w *world) tell(id api.TaskID) {
	state := w.tasks[id].state
	if w.tasks[id].silent {
		state = api.TaskUnreachable
	}
	w.step(Heard{api.Status{Task: id, State: state, Agent: "a1"}})
}
