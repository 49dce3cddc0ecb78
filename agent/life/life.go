// Package life is the order in which a shell runs one life of an agent's core: what the core is told first, in which
// order its effects are performed, and when the life is over. The agent and the simulation of whole clusters both use
// it, so that what the one ignores the other ignores too. It has no clock, disk or goroutine of its own.
package life

import (
	"time"

	"github.com/tenderhq/tender/agent/core"
)

// Shell is what performs the effects of a core.
type Shell interface {
	// Now returns the time, with a monotonic part (R23).
	Now() time.Time
	// Room looks whether the disk has room.
	Room() core.DiskRoom
	// Perform performs an effect. For Forget it does nothing: the life is over then.
	Perform(effect core.Effect)
}

// Life is one life of a core. Only the goroutine that owns the core may use it.
type Life struct {
	core  *core.Core
	shell Shell
	over  bool
}

// New returns a life that has not begun.
func New(c *core.Core, shell Shell) *Life { return &Life{core: c, shell: shell} }

// Over says that the last effect was Forget, in whatever step: also at the start, when the agent was killed while it was
// being marked gone. The shell then begins a new agent with an empty checkpoint (R16).
func (l *Life) Over() bool { return l.over }

// Begin tells the core what was found on its machine, and then how full the disk is, because the core must know of a
// full disk before a leader can launch anything. Between the two it calls sweep, which removes what the core does not
// know.
func (l *Life) Begin(started core.Started, sweep func()) {
	l.Step(l.shell.Now(), started)
	sweep()
	l.Step(l.shell.Now(), l.shell.Room())
}

// Step tells the core what has happened, and has its effects performed in their order. A core whose life is over is told
// nothing more, and nothing behind its Forget is performed.
func (l *Life) Step(now time.Time, what core.Happening) {
	if l.over {
		return
	}
	for _, effect := range l.core.Step(core.Event{At: now, What: what}) {
		l.shell.Perform(effect)
		if _, is := effect.(core.Forget); is {
			l.over = true
			return
		}
	}
}
