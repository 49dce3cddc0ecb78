//go:build !linux

package entry

// Start starts a child.
func Start(start func() error) error { return start() }
