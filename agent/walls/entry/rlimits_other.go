//go:build !linux

package entry

import "errors"

// Give does nothing: Check lets no limit pass here.
func (Rlimits) Give(int) error { return nil }

func (Rlimit) checkAllowed() error {
	return errors.New("only Linux lets another process's limits be set")
}
