package core

import "github.com/tenderhq/tender/api"

// endingsMax bounds how many ended tasks are remembered. They are remembered so that an end that comes again, because
// its acknowledgement was lost, is not told again.
const endingsMax = 1 << 16

// endings remembers the tasks whose end was handled last.
type endings struct {
	states map[api.TaskID]taskEnd
	ring   []api.TaskID
	next   int
}

// taskEnd is how a task has ended.
type taskEnd struct {
	state  api.TaskState
	former *former // set if its agent DROPPED the task; otherwise nil
}

// former is a launch that was DROPPED by its agent. The same ID may be launched again, even on that agent. Then
// statuses of the former launch may still come again, with the same numbers as those of the new one.
type former struct {
	launch api.LaunchID
	// session is the session in which its end was acknowledged, as tasks.sessions counts them; 0: not yet.
	session uint64
}

// formerOf returns the launch that the status drops; nil: the task has ended in another way, or no agent has the launch.
// If a leader's answer tells that, the agent's own status is still on its way.
func formerOf(status api.Status, session uint64) *former {
	if status.State != api.TaskDropped || status.Launch == (api.LaunchID{}) {
		return nil
	}
	return &former{status.Launch, session}
}

// has reports whether the agent's status belongs to this launch, and not to a later one.
func (f *former) has(status api.Status) bool {
	return f != nil && status.Number > 0 && status.Launch == f.launch
}

// judge judges a status of this launch that comes again. It is acknowledged at most once in a session. An
// acknowledgement that was sent before the ID was launched again reaches the agent before that launch; a later one
// could be taken for an acknowledgement of the new launch.
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

// remove forgets an end. Its place in the ring stays taken.
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
