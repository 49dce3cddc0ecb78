package core

import (
	"maps"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// truth is what really happened around the agent of a test: which processes exist, what they were given, and what was
// said. The agent's own memory and records are no part of it.
type truth struct {
	boot  string
	runs  map[Run]*trueRun
	conns map[Conn]Run
	// handed holds the tasks that reached a program, so they may have started there.
	handed map[api.TaskRef]Run
	// settled holds the ends that the agent has acknowledged to an executor.
	settled map[api.TaskRef]api.TaskState
	// booted holds the tasks that ran when the machine went down.
	booted map[api.TaskRef]bool
}

// trueRun is the process of one run.
type trueRun struct {
	process  Process
	boot     string
	released bool
	dead     bool
	told     bool // it was told to end
	tasks    map[api.TaskID]*trueTask
}

// trueTask is a task as its executor knows it.
type trueTask struct {
	number  uint64
	ended   bool
	unacked []protocol.ExecutorStatus
}

func newTruth() *truth {
	return &truth{
		runs: map[Run]*trueRun{}, conns: map[Conn]Run{}, handed: map[api.TaskRef]Run{},
		settled: map[api.TaskRef]api.TaskState{}, booted: map[api.TaskRef]bool{},
	}
}

func (t *truth) clone() *truth {
	c := *t
	c.runs = make(map[Run]*trueRun, len(t.runs))
	for run, r := range t.runs {
		copied := *r
		copied.tasks = make(map[api.TaskID]*trueTask, len(r.tasks))
		for id, task := range r.tasks {
			same := *task
			same.unacked = slices.Clone(task.unacked)
			copied.tasks[id] = &same
		}
		c.runs[run] = &copied
	}
	c.conns, c.handed = map[Conn]Run{}, maps.Clone(t.handed) // the agent's death ends all streams
	c.settled, c.booted = maps.Clone(t.settled), maps.Clone(t.booted)
	return &c
}

// alive says whether the program of a run exists.
func (t *truth) alive(run Run) bool {
	r := t.runs[run]
	return r != nil && r.released && !r.dead
}

func (t *truth) die(run Run) {
	if r := t.runs[run]; r != nil {
		r.dead = true
	}
}

// restarted notes that the agent's process began anew, and that only these executors still live.
func (t *truth) restarted(boot string, alive []Run) {
	t.conns = map[Conn]Run{}
	for run, r := range t.runs {
		if r.boot != boot && t.alive(run) {
			for id, task := range r.tasks {
				t.booted[api.TaskRef{Framework: run.Executor.Framework, Task: id}] = !task.ended
			}
		}
		if !slices.Contains(alive, run) || r.boot != boot {
			r.dead = true
		}
	}
	t.boot = boot
}

// happened notes what an event says about the world.
func (t *truth) happened(c *Core, what Happening) {
	switch w := what.(type) {
	case Started:
		t.restarted(w.BootID, w.Alive)
	case ExecutorForked:
		t.runs[w.Run] = &trueRun{process: w.Process, boot: t.boot, tasks: map[api.TaskID]*trueTask{}}
	case ExecutorExited:
		t.die(w.Run)
	case GroupsGone:
		t.die(w.Run)
	case ExecutorOpened:
		t.subscribed(c, w)
	case ExecutorCalled:
		for _, call := range w.Calls {
			if status, is := call.(protocol.ExecutorStatus); is {
				t.said(t.conns[w.Conn], status)
			}
		}
	case ExecutorClosed:
		delete(t.conns, w.Conn)
	default: // nothing outside the agent
	}
}

// subscribed notes that tasks that the executor does not name never reached it.
func (t *truth) subscribed(c *Core, w ExecutorOpened) {
	e := c.state.executors[w.Subscribe.ExecutorRef]
	if e == nil || !t.alive(e.run()) {
		return
	}
	run := e.run()
	r := t.runs[run]
	maps.DeleteFunc(t.conns, func(_ Conn, old Run) bool { return old == run }) // the newer stream counts
	t.conns[w.Conn] = run
	for id, task := range r.tasks {
		if task.number == 0 && !slices.Contains(w.Subscribe.Tasks, id) {
			delete(r.tasks, id)
			delete(t.handed, api.TaskRef{Framework: run.Executor.Framework, Task: id})
		}
	}
	for _, id := range w.Subscribe.Tasks {
		t.has(run, id)
	}
	for _, status := range w.Subscribe.Unacknowledged {
		t.said(run, status)
	}
}

func (t *truth) has(run Run, id api.TaskID) *trueTask {
	r := t.runs[run]
	if r == nil {
		return nil
	}
	if r.tasks[id] == nil {
		r.tasks[id] = &trueTask{}
		t.handed[api.TaskRef{Framework: run.Executor.Framework, Task: id}] = run
	}
	return r.tasks[id]
}

func (t *truth) said(run Run, status protocol.ExecutorStatus) {
	r := t.runs[run]
	if r == nil || r.tasks[status.Task] == nil {
		return
	}
	task := r.tasks[status.Task]
	if status.Number <= task.number || task.ended {
		return
	}
	task.number, task.ended = status.Number, status.State.Terminal()
	task.unacked = append(task.unacked, status)
}

// performed notes what an effect did to the world.
func (t *truth) performed(c *Core, effect Effect) {
	switch e := effect.(type) {
	case ReleaseExecutor:
		if r := t.runs[e.Run]; r != nil {
			r.released = true
		}
	case KillGroups:
		t.die(e.Run)
	case HandOver:
		t.has(t.conns[e.Conn], e.Task.Task)
	case ToExecutor:
		switch event := e.Event.(type) {
		case protocol.ExecutorAcknowledged:
			t.acknowledged(c, t.conns[e.Conn], event)
		case protocol.ExecutorShutdown:
			if r := t.runs[t.conns[e.Conn]]; r != nil {
				r.told = true
			}
		default: // the others mean nothing here
		}
	default: // no process is touched
	}
}

func (t *truth) acknowledged(c *Core, run Run, ack protocol.ExecutorAcknowledged) {
	r := t.runs[run]
	if r == nil || r.tasks[ack.Task] == nil {
		return
	}
	task := r.tasks[ack.Task]
	task.unacked = slices.DeleteFunc(task.unacked, func(s protocol.ExecutorStatus) bool { return s.Number <= ack.Number })
	ref := api.TaskRef{Framework: run.Executor.Framework, Task: ack.Task}
	if known := c.state.tasks[ref]; known != nil && known.ended() && task.ended && ack.Number >= task.number {
		t.settled[ref] = known.latest.State
	}
}
