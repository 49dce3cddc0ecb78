package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/tenderhq/tender/agent/executor"
)

// TryPorts returns an executor.PortError if another program has one of the ports, by TCP or UDP, on any address of this
// machine. It binds the ports for a moment and listens on none, so nobody can connect to them.
func (l *Launcher) TryPorts(ports map[string]uint16) error {
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		for _, family := range []int{syscall.AF_INET, syscall.AF_INET6} {
			for _, kind := range []int{syscall.SOCK_STREAM, syscall.SOCK_DGRAM} {
				if isTaken(family, kind, int(ports[name])) {
					return &executor.PortError{Err: fmt.Errorf("another program of this machine has port %d, which is to be the task's port %s",
						ports[name], name)}
				}
			}
		}
	}
	return nil
}

// isTaken reports whether a port can't be bound because another socket is. Any other failure, as where the machine has no
// IPv6 or the port is root's, says nothing about others.
func isTaken(family, kind, port int) bool {
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(family, kind, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return false
	}
	defer syscall.Close(socket)
	if kind == syscall.SOCK_STREAM { // connections that the program before the task has closed are in nobody's way
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	var address syscall.Sockaddr = &syscall.SockaddrInet4{Port: port}
	if family == syscall.AF_INET6 {
		address = &syscall.SockaddrInet6{Port: port}
		err = errors.Join(err, syscall.SetsockoptInt(socket, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1))
	}
	return err == nil && errors.Is(syscall.Bind(socket, address), syscall.EADDRINUSE)
}
