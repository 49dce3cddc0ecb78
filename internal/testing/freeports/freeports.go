// Package freeports gives tests, and tools that start clusters, ports of this machine that stay theirs: nobody else who asks
// here is given one of them, in whichever process, also while the program is down that is to listen there.
package freeports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// The ports are below those that systems give to outgoing connections, and below those of `tender dev`, because either
// could take the port of a program that is down.
const first, end = 10_000, 19_000

// held has what keeps each port for this process: the listener of a local socket of the port's name, which exists once
// on the machine, whoever made it, and goes with its process.
var held sync.Map

// Reserve returns ports at which nobody listens on 127.0.0.1. They are this process's until it ends.
func Reserve(count int) (ports []int, err error) {
	for tries := 0; len(ports) < count; tries++ {
		if tries > 20*(end-first) {
			return nil, fmt.Errorf("between %d and %d there are no %d free ports", first, end, count)
		}
		port := first + rand.IntN(end-first)
		keep, err := net.Listen("unix", name(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil { // a stranger has it
			_ = keep.Close()
			continue
		}
		if err := listener.Close(); err != nil {
			return nil, err
		}
		held.Store(port, keep)
		ports = append(ports, port)
	}
	return ports, nil
}

// name is the name of the socket that keeps a port. On Linux it is no file, so that nothing is left of a process that was
// killed.
func name(port int) string {
	name := fmt.Sprint("tender-test-port-", port)
	if runtime.GOOS == "linux" {
		return "@" + name
	}
	return filepath.Join(os.TempDir(), name)
}

// ReserveOne returns a port that is the test's until it ends.
func ReserveOne(t testing.TB) int {
	t.Helper()
	ports, err := Reserve(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if keep, is := held.LoadAndDelete(ports[0]); is {
			_ = keep.(net.Listener).Close() // nobody has connected
		}
	})
	return ports[0]
}
