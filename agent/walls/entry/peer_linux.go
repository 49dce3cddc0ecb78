package entry

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// PeerOf returns the user of the process that has opened a connection to a unix socket, as the kernel knows it. For
// other connections the error is errors.ErrUnsupported.
func PeerOf(connection net.Conn) (uid int, err error) {
	socket, is := connection.(*net.UnixConn)
	if !is {
		return 0, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	return int(credentials.Uid), nil
}
