// Package mounts lets a test check that it has left nothing mounted on the machine, while other tests mount what they
// need.
package mounts

import (
	"os"
	"strings"
	"testing"
)

// List returns the mounts, one on each line, without those in temporary folders other than own, which belong to other
// tests.
func List(t *testing.T, own string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return without(string(text), strings.TrimSuffix(os.TempDir(), "/")+"/", own)
}

// Check fails the test if the mounts are not those that List returned before.
func Check(t *testing.T, own, before string) {
	t.Helper()
	if now := List(t, own); now != before {
		t.Errorf("mounts have changed:\n%s\nwere\n%s", now, before)
	}
}

// without drops the lines of mounts below a folder, except those below own.
func without(table, folder, own string) string {
	const mountPoint = 4 // proc_pid_mountinfo(5)
	var kept strings.Builder
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > mountPoint && strings.HasPrefix(fields[mountPoint], folder) && !strings.HasPrefix(fields[mountPoint], own) {
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}
