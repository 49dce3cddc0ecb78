package core

import (
	"math"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// sandboxes is the room of the folders that outlive their tasks. An ended task whose end is acknowledged is a stub. Its
// sandbox is kept as long as the stub. The stub goes when it is too old, when there are too many, when their sandboxes
// are too large together, or when the disk is nearly full (R15). This room never touches the folder of a task or an
// executor that is still there.
type sandboxes struct {
	*base
	stubsOf map[api.ExecutorRef]int
	// kept is until when each stub's sandbox is kept. Holds: there is an entry for each stub.
	kept     map[api.TaskRef]time.Time
	sweeping bool // a timer is set for the oldest sandbox
	// bytes holds the measured sizes of the stubs' sandboxes, and sum is the total of these.
	bytes map[api.TaskRef]int64
	sum   int64
	// emptied has the tasks whose sandbox was removed, though nobody has acknowledged their end.
	emptied map[api.TaskRef]bool
	// quiet has the executors of which, as this process has seen, no foreign process is left and whose folders are still
	// there: those that have ended, and those for commands that have no tasks. Each has the number of the last run by
	// then. firstRun is the lowest number of a run that has outlived the executor that ended last.
	quiet    map[api.ExecutorRef]uint64
	firstRun uint64
}

// noteEnd notes that no process of an executor is left.
func (sb *sandboxes) noteEnd(ref api.ExecutorRef) {
	if _, known := sb.quiet[ref]; !known {
		sb.quiet[ref] = sb.state.runs
	}
	sb.firstRun = math.MaxUint64
	for _, e := range sb.state.executors { // order: irrelevant because it is a minimum
		sb.firstRun = min(sb.firstRun, e.run().Number)
	}
}

// noteTasks notes how many tasks an executor has now. The one for commands is the agent's own and keeps nothing open.
func (sb *sandboxes) noteTasks(e *executor) {
	switch len(e.tasks) {
	case 1: // or it had one more
		delete(sb.quiet, e.ref())
	case 0:
		if e.starting.Builtin {
			sb.quiet[e.ref()] = sb.state.runs
		}
	}
}

// free reports whether no process can have a folder of the executor open: neither the executor and its tasks, nor any
// to which these could have passed it on.
func (sb *sandboxes) free(ref api.ExecutorRef) bool {
	last, known := sb.quiet[ref]
	return known && sb.state.executors[ref] == nil && last < sb.firstRun
}

// keepStub counts the stub that a settled task has become, and drops the oldest when there are too many. A stub's
// sandbox is removed with it (R15).
func (sb *sandboxes) keepStub(t *task) {
	sb.stubsOf[t.executor]++
	delete(sb.emptied, t.ref)
	if last := len(sb.state.stubs) - 1; last >= 0 && sb.state.stubs[last].TaskRef == t.ref {
		sb.keepSandbox(sb.state.stubs[last])
	}
	for len(sb.state.stubs) > sb.config.StubsMax && sb.dropOldestStub() {
	}
	sb.scheduleSweep()
}

// recoverStubs counts the stubs that were on disk when this process began.
func (sb *sandboxes) recoverStubs() {
	for _, stub := range sb.state.stubs {
		sb.stubsOf[executorOf(stub)]++
		sb.keepSandbox(stub)
	}
	for len(sb.state.stubs) > sb.config.StubsMax && sb.dropOldestStub() {
	}
	sb.scheduleSweep()
}

func executorOf(stub protocol.TaskStub) api.ExecutorRef {
	return api.ExecutorRef{Framework: stub.Framework, Executor: stub.Status.Executor}
}

// dropOldestStub drops the oldest stub with its sandbox, and with the executor's last stub also the executor's folder.
// It passes over stubs whose sandbox other tasks of their group still need. It reports false if there is no other stub.
func (sb *sandboxes) dropOldestStub() bool {
	at := slices.IndexFunc(sb.state.stubs, func(stub protocol.TaskStub) bool {
		_, shares := sb.state.sharers[stub.TaskRef]
		return !shares
	})
	if at < 0 {
		return false
	}
	stub := sb.state.stubs[at]
	sb.dropStub(stub)
	sb.sweepFolder(executorOf(stub))
	return true
}

// dropStub lets a stub go, with its sandbox. Its executor's folder may be needed no more.
func (sb *sandboxes) dropStub(stub protocol.TaskStub) {
	ref := executorOf(stub)
	sb.writeRecord(StubForgotten{stub.TaskRef})
	delete(sb.kept, stub.TaskRef)
	sb.sum -= sb.bytes[stub.TaskRef]
	delete(sb.bytes, stub.TaskRef)
	sb.emit(RemoveFolder{sb.taskFolder(ref, stub.Task), sb.free(ref)})
	if sb.stubsOf[ref]--; sb.stubsOf[ref] <= 0 {
		delete(sb.stubsOf, ref)
	}
}

// makeWay lets the stub go of a task that was DROPPED and whose ID is launched again, if there is one. It returns the
// executor whose folder may not be needed any more, once the launch is taken on.
func (sb *sandboxes) makeWay(task api.TaskRef) (api.ExecutorRef, bool) {
	if _, known := sb.state.stubbed[task]; !known {
		return api.ExecutorRef{}, false
	}
	at := slices.IndexFunc(sb.state.stubs, func(stub protocol.TaskStub) bool { return stub.TaskRef == task })
	stub := sb.state.stubs[at]
	sb.dropStub(stub)
	return executorOf(stub), true
}

// sweepFolder removes an executor's folder when nothing needs it any more.
func (sb *sandboxes) sweepFolder(ref api.ExecutorRef) {
	if sb.stubsOf[ref] > 0 || sb.state.executors[ref] != nil {
		return
	}
	for _, t := range sb.state.tasks { // order: irrelevant because one is enough
		if t.executor == ref {
			return // the task has ended and will become a stub
		}
	}
	sb.emit(RemoveFolder{sb.executorFolder(ref), sb.free(ref)})
	delete(sb.quiet, ref)
}

// keepMeasures notes the sizes of ended tasks' sandboxes, and drops the oldest when they are too large together.
func (sb *sandboxes) keepMeasures(measured map[api.TaskRef]int64) {
	for ref, bytes := range measured { // order: irrelevant because it makes a sum
		if _, known := sb.state.stubbed[ref]; known {
			bytes = min(max(bytes, 0), sandboxBytesMost)
			sb.sum += bytes - sb.bytes[ref]
			sb.bytes[ref] = bytes
		}
	}
	for sb.config.SandboxBytesMax > 0 && sb.sum > sb.config.SandboxBytesMax && sb.dropOldestStub() {
	}
}

// sandboxBytesMost is the most that is counted for one sandbox, also for one that could not be measured, so that the
// sum can't overflow.
const sandboxBytesMost = 1 << 40

// makeRoom drops the oldest tenth of the stubs with their sandboxes, for a disk that is nearly full. When it is full and
// there is none, it drops the oldest sandbox of those tasks whose end nobody has acknowledged for a minute: their
// frameworks may be away for days, in which the agent could start nothing.
func (sb *sandboxes) makeRoom(full bool) {
	dropped := false
	for range (len(sb.state.stubs) + 9) / 10 {
		dropped = sb.dropOldestStub() || dropped
	}
	if dropped || !full {
		return
	}
	for _, t := range sb.state.tasksInOrder() {
		if _, shares := sb.state.sharers[t.ref]; t.ended() && sb.now.Sub(t.latest.At) > time.Minute && t.durable == nil && !sb.emptied[t.ref] && !shares {
			sb.emptied[t.ref] = true
			sb.emit(RemoveFolder{sb.taskFolder(t.executor, t.ref.Task), false})
			return
		}
	}
}

// sandboxGrace is how long a sandbox is kept at least after a start of the agent, however old it is by the wall clock.
// A machine may boot with a wrong time and be corrected soon after.
const sandboxGrace = time.Hour

// keepSandbox sets until when a sandbox is kept, as a time of the monotonic clock (R23): a jump of the wall clock does
// not bring it nearer.
func (sb *sandboxes) keepSandbox(stub protocol.TaskStub) {
	age := max(sb.now.Sub(stub.Status.At), 0)
	left := max(sb.config.SandboxAge-age, min(sandboxGrace, sb.config.SandboxAge))
	sb.kept[stub.TaskRef] = sb.now.Add(left)
}

// scheduleSweep wakes the core when the oldest sandbox is too old. There is one timer for all of them.
func (sb *sandboxes) scheduleSweep() {
	if len(sb.state.stubs) == 0 || sb.sweeping {
		return
	}
	sb.sweeping = true
	sb.timers.Add(sb.kept[sb.state.stubs[0].TaskRef], timer{kind: timerSandbox})
}

// sandboxDue drops sandboxes that are too old by both clocks: by the monotonic one, which has run since this process
// began, and by the wall clock, which may have been corrected meanwhile.
func (sb *sandboxes) sandboxDue() {
	sb.sweeping = false
	for len(sb.state.stubs) > 0 {
		oldest := sb.state.stubs[0]
		if sb.now.Before(sb.kept[oldest.TaskRef]) {
			break
		}
		if left := sb.config.SandboxAge - sb.now.Round(0).Sub(oldest.Status.At.Round(0)); left > 0 {
			sb.kept[oldest.TaskRef] = sb.now.Add(min(left, sb.config.SandboxAge))
			break
		}
		if !sb.dropOldestStub() {
			sb.kept[oldest.TaskRef] = sb.now.Add(sandboxGrace) // others of its group still need it
			break
		}
	}
	sb.scheduleSweep()
}
