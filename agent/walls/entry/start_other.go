//go:build !linux

package entry

// Start starts a child.
func Start(start func() error) error { return start() }

// OnThread does work: only on Linux it leaves a thread otherwise than it was.
func OnThread(work func() (asBefore bool)) { work() }
