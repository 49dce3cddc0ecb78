package commands

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/api"
)

// A program can't say that its disk is full, as its stderr is on that disk. So the status of its end says it.
func TestAFullDiskIsTold(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	a := start(t)
	small := a.sandbox("small")
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("this machine mounts no tmpfs:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		task          api.TaskID
		line, message string
	}{
		{"small", "cat /dev/zero > zeros", "exited with 1; the disk of its sandbox is full"},
		{"large", "exit 1", "exited with 1"},
	} {
		a.shell(test.task, test.line)
		a.want(test.task, api.TaskRunning)
		if got := a.want(test.task, api.TaskFailed).Message; got != test.message {
			t.Errorf("%s: %q, want %q", test.task, got, test.message)
		}
	}
}
