//go:build !linux

package entry

import "errors"

// Give gives nothing: Check has let nothing pass.
func (Rlimits) Give(int) error { return nil }

func (Rlimit) checkAllowed() error {
	return errors.New("only Linux lets another process's limits be set")
}
