//go:build linux && !amd64

package spaces

// lean is for processors that it was tried on. On others a helper has a copy of all memory.
type lean struct{}

func (*lean) open() {}
func (*lean) shut() {}

//go:nosplit
func takeAlong() {}
