package main

import (
	"net"
	"syscall"
	"testing"
)

// TestAConnectionIsToldFromAnotherOfItsPort: the kernel may still list an earlier connection with the same port. If a
// connection is mistaken for that one, its owner is not found, and it is not cut off with its process.
func TestAConnectionIsToldFromAnotherOfItsPort(t *testing.T) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Control: func(_, _ string, conn syscall.RawConn) error {
		var failed error
		err := conn.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
		if err != nil {
			return err
		}
		return failed
	}}
	inodes := map[string]bool{}
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		dialer.LocalAddr = conn.LocalAddr() // the second connection has the same local address
		inode, err := inodeOf(conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr))
		if err != nil || inode == "0" {
			t.Fatalf("socket %s, %v", inode, err)
		}
		inodes[inode] = true
	}
	if len(inodes) != 2 {
		t.Errorf("two connections of one port have the sockets %v", inodes)
	}
}
