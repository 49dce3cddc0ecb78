package adapter

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// checkPeer refuses a connection of another user's process. The kernel lists who owns the other end of a connection
// within the machine. Where it lists nothing, as outside of Linux, nobody is refused.
func checkPeer(conn net.Conn) error {
	near, is := conn.LocalAddr().(*net.TCPAddr)
	if !is {
		return nil // not over the network: a test's
	}
	far, is := conn.RemoteAddr().(*net.TCPAddr)
	if !is || near.IP.To4() == nil || far.IP.To4() == nil {
		return errors.New("it does not come over IPv4")
	}
	uid, err := ownerOf(far, near)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case uid != os.Getuid() && uid != 0:
		return fmt.Errorf("user %d has connected, and the executor runs as another; only it may speak here", uid)
	}
	return nil
}

// ownerOf returns the user whose socket connects from an address of this machine to another one.
func ownerOf(from, to *net.TCPAddr) (int, error) {
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	near, far := kernelAddress(from), kernelAddress(to)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == near && fields[2] == far {
			var uid int
			_, err := fmt.Sscan(fields[7], &uid)
			return uid, err
		}
	}
	return 0, errors.New("nobody on this machine has that connection")
}

// kernelAddress returns an IPv4 address and a port as the kernel writes them.
func kernelAddress(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(a.IP.To4()), a.Port)
}
