package agent

import (
	"golang.org/x/sys/unix"
)

// shortcomings says what an agent can't do on this system.
const shortcomings = "it does not tell what tasks use, so usage is not shown and nothing is offered as revocable; " +
	"ends of processes and new output are looked for a few times a second"

// bootID returns a word that is new after each boot.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

func memoryBytes() uint64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return total
}
