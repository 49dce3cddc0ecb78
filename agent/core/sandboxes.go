package core

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// sandboxes is the room of the folders that outlive their tasks. An ended task whose end is acknowledged is a stub, and
// its sandbox is kept as long as the stub: until it is too old, one of too many, of too many bytes together, or its disk
// has little room (R15). It never touches the folder of a task or an executor that is still there.
type sandboxes struct {
	*base
	stubsOf map[api.ExecutorRef]int
	// kept is until when the sandbox of a stub is kept. Holds: there is an entry for each stub.
	kept     map[api.TaskRef]time.Time
	sweeping bool // a timer waits for the oldest sandbox
	// bytes is what the sandboxes of stubs take, as far as they were measured, and sum is all of that together.
	bytes map[api.TaskRef]int64
	sum   int64
}

// keepStub counts the stub that a settled task has become, and lets the oldest go when
// there are too many. With a stub its sandbox goes (R15).
func (sb *sandboxes) keepStub(t *task) {
	sb.stubsOf[t.executor]++
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

// dropOldestStub lets the oldest stub go, with its sandbox, and the executor's folder with the last of its stubs. It
// passes over those whose sandbox others of their group still need; false: there are no others.
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
	sb.emit(RemoveFolder{sb.taskFolder(ref, stub.Task)})
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

// sweepFolder removes an executor's folder with the last that it was kept for.
func (sb *sandboxes) sweepFolder(ref api.ExecutorRef) {
	if sb.stubsOf[ref] > 0 || sb.state.executors[ref] != nil {
		return
	}
	for _, t := range sb.state.tasks { // order: irrelevant because one is enough
		if t.executor == ref {
			return // it has ended, and will become a stub
		}
	}
	sb.emit(RemoveFolder{sb.executorFolder(ref)})
}

// keepMeasures notes what sandboxes of ended tasks take, and lets the oldest go when they are too large together.
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

// sandboxBytesMost is what a sandbox counts as that could not be measured: the sum of all stays a number.
const sandboxBytesMost = 1 << 40

// giveUpTenth lets a tenth of the sandboxes go, the oldest ones, for a disk with little room.
func (sb *sandboxes) giveUpTenth() {
	for range (len(sb.state.stubs) + 9) / 10 {
		sb.dropOldestStub()
	}
}

// sandboxGrace is how long a sandbox is kept at least from a start of the agent on, however
// old the clock on the wall makes it: a machine may boot with a wrong one, and hear the right
// time soon after.
const sandboxGrace = time.Hour

// keepSandbox says until when a sandbox is kept. From then on that moment is one of the
// monotonic clock (R23): a jump of the wall's does not bring it nearer.
func (sb *sandboxes) keepSandbox(stub protocol.TaskStub) {
	age := max(sb.now.Sub(stub.Status.At), 0)
	left := max(sb.config.SandboxAge-age, min(sandboxGrace, sb.config.SandboxAge))
	sb.kept[stub.TaskRef] = sb.now.Add(left)
}

// scheduleSweep wakes the core when the oldest sandbox is too old; one timer for all.
func (sb *sandboxes) scheduleSweep() {
	if len(sb.state.stubs) == 0 || sb.sweeping {
		return
	}
	sb.sweeping = true
	sb.wakeAt(sb.kept[sb.state.stubs[0].TaskRef], timer{kind: timerSandbox})
}

// sandboxDue lets sandboxes go that both clocks call too old: the one that has counted since
// this process began, and the wall's, which may have been put right meanwhile.
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
			sb.kept[oldest.TaskRef] = sb.now.Add(sandboxGrace) // the rest of its group lives
			break
		}
	}
	sb.scheduleSweep()
}
