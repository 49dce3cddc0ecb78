package process

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
)

// watch blocks until the process has ended (true) or the context (false). A pidfd is
// readable once its process has ended; no thread waits for it meanwhile.
func watch(ctx context.Context, id core.Process) bool {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return pollUntilGone(ctx, id)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	if !proc.Alive(id.PID, id.Start) { // the descriptor may be of a later process
		return true
	}
	stop := context.AfterFunc(ctx, func() { file.Close() }) //nolint:errcheck // it only ends the wait
	defer stop()
	connection, err := file.SyscallConn()
	if err != nil {
		return pollUntilGone(ctx, id)
	}
	err = connection.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		return n > 0
	})
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		return pollUntilGone(ctx, id)
	}
	return true
}
