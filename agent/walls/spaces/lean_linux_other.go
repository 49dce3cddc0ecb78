//go:build linux && (!amd64 || wholeforks)

package spaces

// lean does nothing here: it is used only on processors on which it was tried. On others a helper gets a copy of all
// memory of the spawner.
type lean struct{}

// isLean says that helpers are born without Go's memory.
const isLean = false

func (*lean) open() {}
func (*lean) shut() {}

//go:nosplit
func takeAlong() {}
