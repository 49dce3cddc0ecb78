//go:build !linux

package tail

// kernel is not used on this system.
type kernel struct{}

func (*Watcher) ask(*changes, Folder) (granted bool, err error) { return false, nil }

func (*Watcher) forget(*changes) {}
