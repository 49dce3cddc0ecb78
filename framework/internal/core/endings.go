package core

import (
	"github.com/tenderhq/tender/api"
)

// endingsMax bounds the tasks whose end is remembered so that a second copy of
// it, whose acknowledgement was lost, is not told again.
const endingsMax = 1 << 16

// endings remembers the latest tasks whose end was handled.
type endings struct {
	states map[api.TaskID]api.TaskState
	ring   []api.TaskID
	next   int
}

func newEndings() endings { return endings{states: make(map[api.TaskID]api.TaskState)} }

func (e *endings) has(id api.TaskID) bool {
	_, ok := e.states[id]
	return ok
}

// remove forgets an end; its place in the ring stays taken.
func (e *endings) remove(id api.TaskID) { delete(e.states, id) }

func (e *endings) add(id api.TaskID, state api.TaskState) {
	if e.has(id) {
		return
	}
	if len(e.ring) < endingsMax {
		e.ring = append(e.ring, id)
	} else {
		delete(e.states, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % endingsMax
	}
	e.states[id] = state
}
