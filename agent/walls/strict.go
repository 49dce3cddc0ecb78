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
)

// denies tells whether an executor is denied calls of the kernel from its start on, with all that it starts. The built-in
// one of an agent with namespaces needs them for its tasks, to which it denies them.
func (c *Cells) denies(builtin bool) bool {
	return c.config.DenyCalls && !(builtin && c.config.Isolation == Spaces)
}

// tryDeny says why calls of the kernel can't be denied as they should be, or nil. In a cell of their own only tasks with
// namespaces can be denied some: the kernel makes a process in a cell by a call that others are denied.
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

// Ground is what an executor stands on.
type Ground struct {
	Builtin bool
	Sandbox string // its folder
	Socket  string // by which it reaches its agent, in a folder that stays when another agent binds it anew
	Owner   entry.User
}

// Restrict takes from the calling thread, and so from the executor that it starts with all its tasks, what these are not
// to have. The built-in one reaches all files, and keeps its tasks from them one by one; another one may be given tasks
// with volumes later: rules for files let it reach those of all, in namespaces it is shown them then (see Reveal). The
// thread must be its goroutine's own, and end with it.
func (c *Cells) Restrict(ground Ground) (err error) {
	if c == nil {
		return nil
	}
	if c.spaced(ground.Builtin) {
		err = c.view(ground).Confine(spaces.User{UID: ground.Owner.UID, GID: ground.Owner.GID})
	}
	if c.config.Landlock { // which is for agents without root, and so without namespaces
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

// Reach says which files a program may use whose own these folders are; nil: all that its user may.
func (c *Cells) Reach(own ...string) *paths.Reach {
	if c == nil || !c.config.Landlock {
		return nil
	}
	return &paths.Reach{Hidden: c.folder, Own: own}
}

// volumes is the folder that those of all tasks are in.
func (c *Cells) volumes() string { return filepath.Join(c.folder, "volumes") }

// tryConfine says why tasks can't be kept from files as they should be, or nil.
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
		// A rule is for what is there.
		if err = os.Mkdir(c.volumes(), 0o711); errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("rules for files (Landlock) were asked for, and %w", err)
	}
	return nil
}

// findPaths adds what rules for files can do here, and what they can't.
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
