//go:build !linux || !(amd64 || arm64)

package calls

import "errors"

var errUnsupported = errors.New("system calls can be denied on Linux for amd64 and arm64 only")

// Deny denies nothing here.
func Deny() error { return errUnsupported }

// Try says why calls can't be denied on this machine.
func Try() error { return errUnsupported }
