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

// memoryBytes is what the machine has, or what the container is limited to.
func memoryBytes() uint64 {
	total := fromMeminfo()
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		var limit uint64
		if _, err := fmt.Sscan(string(text), &limit); err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

func fromMeminfo() uint64 {
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
