package core

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// stubMade counts the stub that a settled task has become, and lets the oldest go when
// there are too many. With a stub its sandbox goes (R15).
func (c *Core) stubMade(t *task) {
	c.stubsOf[t.executor]++
	for len(c.state.stubs) > c.config.StubsMax {
		c.dropOldest()
	}
	c.sandboxLater()
}

func (c *Core) recoverStubs() {
	for _, stub := range c.state.stubs {
		c.stubsOf[executorOf(stub)]++
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

// sandboxLater wakes the core when the oldest sandbox is too old; one timer for all.
func (c *Core) sandboxLater() {
	if len(c.state.stubs) == 0 || c.sweeping {
		return
	}
	c.sweeping = true
	c.at(c.state.stubs[0].Status.At.Add(c.config.SandboxAge), timer{kind: timerSandbox})
}

func (c *Core) sandboxDue() {
	c.sweeping = false
	for len(c.state.stubs) > 0 && c.now.Sub(c.state.stubs[0].Status.At) >= c.config.SandboxAge {
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
	}
	if w.Full || w.Low {
		for range (len(c.state.stubs) + 9) / 10 {
			c.dropOldest()
		}
	}
}
