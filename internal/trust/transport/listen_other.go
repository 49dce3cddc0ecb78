//go:build !linux

package transport

func deferAccept(uintptr) {}
