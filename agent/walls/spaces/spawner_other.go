//go:build !linux

package spaces

import (
	"errors"
	"syscall"
)

var errUnsupported = errors.New("only Linux has namespaces")

// Spawner does nothing here: only Linux has helpers.
type Spawner struct{}

// OpenSpawner opens nothing here.
func OpenSpawner() (*Spawner, error) { return nil, errUnsupported }

// Start starts nothing here.
func (*Spawner) Start(Order, [3]uintptr) (pid int, err error) { return 0, errUnsupported }

// Close closes nothing here.
func (*Spawner) Close() {}

// Forget forgets nothing here.
func (*Spawner) Forget() error { return nil }

// Ended returns own.
func (*Spawner) Ended(_ int, own syscall.WaitStatus) syscall.WaitStatus { return own }

// Try says why tasks can't have namespaces here.
func Try(View) error { return errUnsupported }

// ProgramOf returns pid.
func ProgramOf(pid int) int { return pid }

// Confine confines nothing here.
func (View) Confine(User) error { return errUnsupported }

// Reveal has nothing to do here: all processes see the same files.
func Reveal(int, string, []string) error { return nil }

// Conceal has nothing to do here.
func Conceal(int, string, []string) error { return nil }
