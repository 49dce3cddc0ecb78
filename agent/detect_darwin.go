package agent

import (
	"golang.org/x/sys/unix"
)

// shortcomings are what this system does not let an agent do.
const shortcomings = "it does not tell what tasks use, so usage is not shown and nothing is offered as revocable; " +
	"ends of processes and new output are looked for a few times a second"

// bootID is a new word for each boot.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

func memoryBytes() uint64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return total
}
