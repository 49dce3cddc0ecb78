package transport

import (
	"syscall"
	"time"
)

// silentMax is how long the kernel keeps back a connection on which nothing was sent. After that we accept it, and
// other code closes it.
const silentMax = 5 * time.Second

func deferAccept(socket uintptr) {
	// If this fails, connections are only accepted sooner.
	_ = syscall.SetsockoptInt(int(socket), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, int(silentMax/time.Second))
}
