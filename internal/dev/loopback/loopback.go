// Package loopback gives each of many peers in one process an address of its own on this machine, as if each ran
// on a machine of its own.
package loopback

import (
	"net"
	"runtime"
)

// Dialer dials 127.0.0.1 from the address of that number: 0 is the usual one. Only Linux has the others without
// being asked for them; elsewhere all peers have the usual one.
func Dialer(number int) *net.Dialer {
	if number == 0 || runtime.GOOS != "linux" {
		return new(net.Dialer)
	}
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+number>>16), byte(number>>8), byte(number))}}
}
