// Package loopback gives each of many peers in one process an address of its own on this machine, as if each ran
// on a machine of its own.
package loopback

import (
	"net"
	"runtime"
)

// Dialer returns a dialer that dials from the loopback address with that number; 0 is the usual address. Only Linux has
// the other addresses without configuration; elsewhere all peers have the usual one.
func Dialer(number int) *net.Dialer {
	if number == 0 || runtime.GOOS != "linux" {
		return new(net.Dialer)
	}
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+number>>16), byte(number>>8), byte(number))}}
}
