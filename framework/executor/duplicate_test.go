package executor

import (
	"os"
	"syscall"
	"testing"
)

// duplicate makes another descriptor of the file.
func duplicate(t *testing.T, file *os.File) int {
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
