package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tenderhq/tender/internal/protocol"
)

// startedBelow lists the executors and tasks whose sandbox is in the folder, by their environment (R33). A shell whose
// working folder is there is not one of them.
func startedBelow(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err == nil && hasSandbox(environment, dir, protocol.ExecutorSandboxEnv, protocol.TaskSandboxEnv) { // otherwise it has ended, or belongs to another user
			pids = append(pids, pid)
		}
	}
	return pids
}

// executorsBelow lists those of them that are executors.
func executorsBelow(dir string) []int {
	return slices.DeleteFunc(startedBelow(dir), func(pid int) bool {
		environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		return err != nil || !hasSandbox(environment, dir, protocol.ExecutorSandboxEnv) || hasSandbox(environment, dir, protocol.TaskSandboxEnv)
	})
}

func hasSandbox(environment []byte, dir string, names ...string) bool {
	for pair := range bytes.SplitSeq(environment, []byte{0}) {
		for _, name := range names {
			if bytes.HasPrefix(pair, []byte(name+"="+dir+"/")) {
				return true
			}
		}
	}
	return false
}
