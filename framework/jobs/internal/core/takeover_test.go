package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
)

// takeOver is what a manager does that has become the active one.
func (w *world) takeOver() {
	w.keys, w.waiting = map[string]bool{}, nil
	if w.store[HeaderKey] == nil && w.m.Gone { // it was being deleted: what is left is nobody's, and what runs is a stray
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
	w.plan()
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

// tellAll says what the leader knows of all that has not ended.
func (w *world) tellAll() {
	for _, id := range slices.Sorted(maps.Keys(w.tasks)) {
		if task := w.tasks[id]; len(task.told) == 0 && !task.state.Terminal() {
			w.tell(id)
		}
	}
}

// tell says what the leader knows of a task.
func (w *world) tell(id api.TaskID) {
	state := w.tasks[id].state
	if w.tasks[id].silent {
		state = api.TaskUnreachable
	}
	w.step(Heard{api.Status{Task: id, State: state, Agent: "a1"}})
}
