//go:build !linux

package entry

// As does something as it is done without: only Linux has rights for one thread.
func As(_ User, work func() error) error { return work() }

// Ours does something with the rights of this process.
func Ours(work func() error) error { return work() }
