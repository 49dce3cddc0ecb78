//go:build !amd64 && !arm64

package calls

import "golang.org/x/sys/unix"

// Filter makes no filter here.
func Filter() (*unix.SockFprog, error) { return nil, errUnsupported }
