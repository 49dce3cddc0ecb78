package walls

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/agent/walls/calls"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/paths"
	"github.com/tenderhq/tender/agent/walls/spaces"
	"github.com/tenderhq/tender/api"
)

// denies reports whether an executor is denied system calls from its start on, with all that it starts. The built-in
// executor of an agent with namespaces needs these calls to start its tasks; it denies them to the tasks.
func (c *Cells) denies(builtin bool) bool {
	return c.config.DenyCalls && !(builtin && c.config.Isolation == Spaces)
}

// tryDeny returns why system calls can't be denied as the config says, or nil. Where there are control groups, only
// tasks with namespaces can be denied some. For other tasks the executor would have the filter as well, and the filter
// denies the call by which the kernel makes a process in a cell.
func (c *Cells) tryDeny() error {
	if !c.config.DenyCalls {
		return nil
	}
	if c.tree.Makes && c.config.Isolation != Spaces {
		return fmt.Errorf("system calls were to be denied; where there are control groups only tasks with namespaces can be denied some: "+
			"ask for isolation %q too", Spaces)
	}
	if err := calls.Try(); err != nil {
		return fmt.Errorf("system calls were to be denied, and %w", err)
	}
	return nil
}

// Ground describes an executor that is being started.
type Ground struct {
	Executor api.ExecutorRef
	Builtin  bool
	Sandbox  string // the executor's folder
	Socket   string // the socket of its agent; its folder stays when the agent's next process binds the socket anew
	Owner    entry.User
}

// Restrict takes from the calling thread, and so from the executor that it starts and from the executor's tasks, what
// these are not to have. The built-in executor can use all files, and restricts each of its tasks itself. An executor
// of a framework may be given tasks with volumes later: with rules for files it can use all volumes from the start;
// with namespaces the volumes are shown to it later (see Reveal). The thread must be locked to its goroutine, and end
// with it.
func (c *Cells) Restrict(ground Ground) (err error) {
	if c == nil {
		return nil
	}
	if c.spaced(ground.Builtin) {
		err = c.view(ground).Confine(spaces.User{UID: ground.Owner.UID, GID: ground.Owner.GID})
	}
	if c.config.Landlock { // Landlock is for agents that are not root, which have no namespaces
		err = paths.Separate()
		if reach := c.Reach(ground.Sandbox, c.volumes()); !ground.Builtin && err == nil {
			err = reach.Confine()
		}
	}
	if err == nil && c.denies(ground.Builtin) {
		err = calls.Deny()
	}
	return err
}

// Reach returns which files a program may use that has these folders as its own; nil: all files that its user may use.
func (c *Cells) Reach(own ...string) *paths.Reach {
	if c == nil || !c.config.Landlock {
		return nil
	}
	return &paths.Reach{Hidden: c.folder, Own: own}
}

// volumes returns the folder that holds the volumes of all tasks.
func (c *Cells) volumes() string { return filepath.Join(c.folder, "volumes") }

// tryConfine returns why tasks can't be kept from files as the config says, or nil.
func (c *Cells) tryConfine() error {
	if !c.config.Landlock {
		return nil
	}
	if os.Geteuid() == 0 {
		return fmt.Errorf("rules for files (Landlock) were asked for, which are for agents that are not root: tasks of this one run as other users, "+
			"and with isolation %q they do not see its folder", Spaces)
	}
	_, err := paths.Try()
	if err == nil && c.tree.Makes && c.tree.Root.Grade != cell.Cgroup2 {
		err = fmt.Errorf("tasks with such rules enter control groups of version 2 only; ask for isolation %q too", Without)
	}
	if err == nil {
		_, err = c.Reach().Rules()
	}
	if err == nil {
		// A rule can be made only for a folder that exists.
		if err = os.Mkdir(c.volumes(), 0o711); errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("rules for files (Landlock) were asked for, and %w", err)
	}
	return nil
}

// findPaths adds to found what rules for files can do here, and what they can't.
func (c *Cells) findPaths(found *Found) {
	if !c.config.Landlock {
		return
	}
	found.Add(paths.Ability)
	found.Lack("tasks run as the agent's own user: Landlock keeps them from its files and each other's, " +
		"but not from seeing and changing modes, owners and times of these")
	sentences, _ := paths.Try() // it was tried at the start
	for _, sentence := range sentences {
		found.Lack(sentence)
	}
}
