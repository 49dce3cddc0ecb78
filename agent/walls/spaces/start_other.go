//go:build !linux

package spaces

import (
	"errors"
	"syscall"
)

var errUnsupported = errors.New("only Linux has namespaces")

// Spawner starts helpers; here there are none.
type Spawner struct{}

// OpenSpawner opens nothing here.
func OpenSpawner() (*Spawner, error) { return nil, errUnsupported }

// Start starts nothing here.
func (*Spawner) Start(Order, [3]uintptr) (pid int, err error) { return 0, errUnsupported }

// Close closes nothing here.
func (*Spawner) Close() {}

// Forget forgets nothing here.
func (*Spawner) Forget() error { return nil }

// Ended is the status itself.
func (*Spawner) Ended(_ int, own syscall.WaitStatus) syscall.WaitStatus { return own }

// Try says why tasks can't have namespaces here.
func Try(View) error { return errUnsupported }

// ProgramOf is the process itself.
func ProgramOf(pid int) int { return pid }
