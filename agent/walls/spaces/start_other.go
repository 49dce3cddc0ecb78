//go:build !linux

package spaces

import (
	"errors"
	"syscall"
)

var errUnsupported = errors.New("only Linux has namespaces")

// Started is a helper; here there are none.
type Started struct{ PID int }

// Start starts nothing here.
func Start(*syscall.SysProcAttr, bool, [3]uintptr, *Ends) (*Started, error) {
	return nil, errUnsupported
}

// Finish does nothing here.
func (*Started) Finish(Order) error { return errUnsupported }

// Ends is where helpers tell how their programs have ended.
type Ends struct{}

// OpenEnds opens nothing here.
func OpenEnds() (*Ends, error) { return nil, errUnsupported }

// Close closes nothing here.
func (*Ends) Close() error { return nil }

// Of is the status itself.
func (*Ends) Of(_ int, own syscall.WaitStatus) syscall.WaitStatus { return own }

// Try says why tasks can't have namespaces here.
func Try(View) error { return errUnsupported }

// ProgramOf is the process itself.
func ProgramOf(pid int) int { return pid }
