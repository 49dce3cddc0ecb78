package core

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// endingsMax bounds the tasks whose end is remembered so that a second copy of
// it, whose acknowledgement was lost, is not told again.
const endingsMax = 1 << 16

// endings remembers the latest tasks whose end was handled.
type endings struct {
	states map[api.TaskID]taskEnd
	ring   []api.TaskID
	next   int
}

// taskEnd is how a task has ended.
type taskEnd struct {
	state  api.TaskState
	former *former // of one that was DROPPED by its agent; nil: of all others
}

// former is a launch that was DROPPED by its agent. Its ID may be launched again, there too, and what its agent has told of
// the former launch may come again meanwhile, numbered like what it tells of the next.
type former struct {
	agent  api.AgentID
	number uint64    // of the status that dropped it
	at     time.Time // when the agent made that
	// session is in which it was acknowledged, counted by tasks.sessions; 0: in none yet.
	session uint64
}

// formerOf is the launch that the status drops; nil: it ends in another way, or is nothing that its agent tells again.
func formerOf(status api.Status, session uint64) *former {
	if status.State != api.TaskDropped || status.Number == 0 {
		return nil
	}
	return &former{status.Agent, status.Number, status.At, session}
}

// has says whether the status was told of this launch, and not of a later one.
func (f *former) has(status api.Status) bool {
	return f != nil && status.Number > 0 && status.Number <= f.number && status.Agent == f.agent && !status.At.After(f.at)
}

// judge judges a status of this launch that comes again. It is acknowledged once in a session: what was acknowledged before
// the ID was launched again reaches the agent before that launch, and a later one could be taken for one of that launch.
func (f *former) judge(session uint64) verdict {
	if f.session == session {
		return ignore
	}
	f.session = session
	return acknowledge
}

func newEndings() endings { return endings{states: make(map[api.TaskID]taskEnd)} }

func (e *endings) has(id api.TaskID) bool {
	_, ok := e.states[id]
	return ok
}

// remove forgets an end; its place in the ring stays taken.
func (e *endings) remove(id api.TaskID) { delete(e.states, id) }

func (e *endings) add(id api.TaskID, how taskEnd) {
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
	e.states[id] = how
}
