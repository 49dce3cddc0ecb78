package executor

import (
	"os"
	"syscall"
	"testing"
)

// duplicate makes a descriptor that is not the file's own.
func duplicate(t *testing.T, file *os.File) int {
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
