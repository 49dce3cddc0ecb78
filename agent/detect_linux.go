package agent

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// shortcomings are what this system does not let an agent do: nothing.
const shortcomings = ""

// bootID is a new word for each boot.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// memoryBytes is what the machine has.
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
