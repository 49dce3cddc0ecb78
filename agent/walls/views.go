package walls

import (
	"path/filepath"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/agent/walls/spaces"
)

// spaced reports whether an executor has namespaces, and so a view of its own of the machine's files. The built-in
// executor has none: each of its tasks does.
func (c *Cells) spaced(builtin bool) bool {
	return c != nil && !builtin && c.config.Isolation == Spaces
}

// view returns which of the machine's files an executor of a framework sees, with all that it starts. In the agent's
// folder it sees its own folder and that of the socket.
func (c *Cells) view(ground Ground) spaces.View {
	view := spaces.View{
		Hidden: []string{c.folder}, Shown: []string{ground.Sandbox}, Temporary: ground.Sandbox, ReadOnly: c.config.ReadOnlyRoot,
	}
	if ground.Socket != "" {
		view.Shown = append(view.Shown, filepath.Dir(ground.Socket))
	}
	for _, device := range c.config.GPUs.Others(nil) { // its control group says which of these it may use
		view.Devices = append(view.Devices, device.Path)
	}
	for _, device := range c.config.GPUs.Shared {
		view.Devices = append(view.Devices, device.Path)
	}
	return view
}

// Reveal shows folders of the agent's folder to a running executor, and so to its tasks. These are the volumes and
// secrets of tasks that it is about to get. Reveal does nothing where the executor sees the folders anyway.
func (c *Cells) Reveal(pid int, folders ...string) error {
	if pid == 0 || len(folders) == 0 || !c.spaced(false) {
		return nil
	}
	c.showing.Lock()
	defer c.showing.Unlock()
	return entry.Start(func() error { return spaces.Reveal(pid, c.folder, folders) })
}

// Conceal undoes Reveal for these folders.
func (c *Cells) Conceal(pid int, folders ...string) error {
	if pid == 0 || len(folders) == 0 || !c.spaced(false) {
		return nil
	}
	c.showing.Lock()
	defer c.showing.Unlock()
	return entry.Start(func() error { return spaces.Conceal(pid, c.folder, folders) })
}
