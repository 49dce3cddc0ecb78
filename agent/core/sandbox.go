package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// stubMade counts the stub that a settled task has become, and lets the oldest go when
// there are too many. With a stub its sandbox goes (R15).
func (c *Core) stubMade(t *task) {
	c.stubsOf[t.executor]++
	if last := len(c.state.stubs) - 1; last >= 0 && c.state.stubs[last].TaskRef == t.ref {
		c.keepSandbox(c.state.stubs[last])
	}
	for len(c.state.stubs) > c.config.StubsMax {
		c.dropOldest()
	}
	c.sandboxLater()
}

func (c *Core) recoverStubs() {
	for _, stub := range c.state.stubs {
		c.stubsOf[executorOf(stub)]++
		c.keepSandbox(stub)
	}
	for len(c.state.stubs) > c.config.StubsMax {
		c.dropOldest()
	}
	c.sandboxLater()
}

func executorOf(stub protocol.TaskStub) api.ExecutorRef {
	return api.ExecutorRef{Framework: stub.Framework, Executor: stub.Status.Executor}
}

func (c *Core) dropOldest() {
	stub := c.state.stubs[0]
	ref := executorOf(stub)
	c.put(StubForgotten{stub.TaskRef})
	delete(c.kept, stub.TaskRef)
	c.emit(RemoveFolder{c.taskFolder(ref, stub.Task)})
	if c.stubsOf[ref]--; c.stubsOf[ref] <= 0 {
		delete(c.stubsOf, ref)
		c.sweepFolder(ref)
	}
}

// sweepFolder removes an executor's folder with the last that it was kept for.
func (c *Core) sweepFolder(ref api.ExecutorRef) {
	if c.stubsOf[ref] > 0 || c.state.executors[ref] != nil {
		return
	}
	for _, t := range c.state.tasksInOrder() {
		if t.executor == ref {
			return // its stub is to come
		}
	}
	c.emit(RemoveFolder{c.executorFolder(ref)})
}

// sandboxGrace is how long a sandbox is kept at least from a start of the agent on, however
// old the clock on the wall makes it: a machine may boot with a wrong one, and hear the right
// time soon after.
const sandboxGrace = time.Hour

// keepSandbox says until when a sandbox is kept. From then on that moment is one of the
// monotonic clock (R23): a jump of the wall's does not bring it nearer.
func (c *Core) keepSandbox(stub protocol.TaskStub) {
	age := max(c.now.Sub(stub.Status.At), 0)
	left := max(c.config.SandboxAge-age, min(sandboxGrace, c.config.SandboxAge))
	if c.kept == nil {
		c.kept = map[api.TaskRef]time.Time{}
	}
	c.kept[stub.TaskRef] = c.now.Add(left)
}

// sandboxLater wakes the core when the oldest sandbox is too old; one timer for all.
func (c *Core) sandboxLater() {
	if len(c.state.stubs) == 0 || c.sweeping {
		return
	}
	c.sweeping = true
	c.at(c.kept[c.state.stubs[0].TaskRef], timer{kind: timerSandbox})
}

// sandboxDue lets sandboxes go that both clocks call too old: the one that has counted since
// this process began, and the wall's, which may have been put right meanwhile.
func (c *Core) sandboxDue() {
	c.sweeping = false
	for len(c.state.stubs) > 0 {
		oldest := c.state.stubs[0]
		if c.now.Before(c.kept[oldest.TaskRef]) {
			break
		}
		if left := c.config.SandboxAge - c.now.Round(0).Sub(oldest.Status.At.Round(0)); left > 0 {
			c.kept[oldest.TaskRef] = c.now.Add(min(left, c.config.SandboxAge))
			break
		}
		c.dropOldest()
	}
	c.sandboxLater()
}

// diskRoom: a disk without room takes no launches (R14), one with little gives up a
// tenth of the old sandboxes.
func (c *Core) diskRoom(w DiskRoom) {
	if w.Full != c.diskFull {
		c.diskFull = w.Full
		c.log("disk", field("full", map[bool]string{true: "yes", false: "no"}[w.Full]))
		c.tellUnable()
	}
	if w.Full || w.Low {
		for range (len(c.state.stubs) + 9) / 10 {
			c.dropOldest()
		}
	}
}
