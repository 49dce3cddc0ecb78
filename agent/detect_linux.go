package agent

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// shortcomings says what an agent can't do on this system: there is nothing.
const shortcomings = ""

// bootID returns a word that is new after each boot.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// memoryBytes returns how much memory the machine has, or 0 if that is not known.
func memoryBytes() uint64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 0
}
