//go:build !linux

package entry

// Start calls start.
func Start(start func() error) error { return start() }

// OnThread does work. Only on Linux does work change its thread.
func OnThread(work func() (asBefore bool)) { work() }
