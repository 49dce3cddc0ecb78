package transport

import (
	"syscall"
	"time"
)

// silentMax is for how long the kernel keeps a connection without a word to itself. Then it is ours, and others close it.
const silentMax = 5 * time.Second

func deferAccept(socket uintptr) {
	// Without it connections come sooner, and that is all.
	_ = syscall.SetsockoptInt(int(socket), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, int(silentMax/time.Second))
}
