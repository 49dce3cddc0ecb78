package agent

import (
	"golang.org/x/sys/unix"
)

// bootID is a new word for each boot.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

func memoryBytes() uint64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return total
}
