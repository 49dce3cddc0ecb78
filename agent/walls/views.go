package walls

import (
	"path/filepath"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
)

// spaced tells whether an executor sees the machine's files in a way of its own. The built-in one does not: each of its
// tasks does.
func (c *Cells) spaced(builtin bool) bool {
	return c != nil && !builtin && c.config.Isolation == Spaces
}

// view is what an executor of a framework's own sees of the machine's files, with all that it starts: of the agent's
// folder its own and the socket's.
func (c *Cells) view(ground Ground) spaces.View {
	view := spaces.View{
		Hidden: []string{c.folder}, Shown: []string{ground.Sandbox}, Temporary: ground.Sandbox, ReadOnly: c.config.ReadOnlyRoot,
	}
	if ground.Socket != "" {
		view.Shown = append(view.Shown, filepath.Dir(ground.Socket))
	}
	for _, device := range c.config.GPUs.Others(nil) { // which of them it may use its control group knows
		view.Devices = append(view.Devices, device.Path)
	}
	for _, device := range c.config.GPUs.Shared {
		view.Devices = append(view.Devices, device.Path)
	}
	return view
}

// Reveal shows folders of the agent's to an executor that runs, and so to its tasks: volumes and secrets, which come with
// tasks. It does nothing where the executor sees them anyway.
func (c *Cells) Reveal(pid int, folders ...string) error {
	if pid == 0 || len(folders) == 0 || !c.spaced(false) {
		return nil
	}
	c.showing.Lock()
	defer c.showing.Unlock()
	return entry.Start(func() error { return spaces.Reveal(pid, c.folder, folders) })
}

// Conceal takes what is mounted on folders from an executor to which it was shown.
func (c *Cells) Conceal(pid int, folders ...string) error {
	if pid == 0 || len(folders) == 0 || !c.spaced(false) {
		return nil
	}
	c.showing.Lock()
	defer c.showing.Unlock()
	return entry.Start(func() error { return spaces.Conceal(pid, c.folder, folders) })
}
