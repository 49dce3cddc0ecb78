package proc

import (
	"os"
	"strings"
)

// Status returns what the kernel says about a process by name, as in proc_pid_status(5). The process is a number, or
// "self" or "thread-self".
func Status(process string) (map[string]string, error) {
	text, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	return status, nil
}
