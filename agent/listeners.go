package agent

import (
	"errors"
	"io/fs"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// listeners are the two listeners of an agent. They stay open through all lives of its core.
type listeners struct {
	http    *sharedListener // nil = none
	sockets *sharedListener // the executors' socket
	socket  string          // the path of the executors' socket
	address atomic.Value    // string: the address of the HTTP listener
}

// How many connections may be open at the same time. Beyond that the newest one is closed at once and counted in a
// metric: connections of strangers must not use up the file descriptors that executors need to come back.
const (
	httpConnectionsMax     = 4096
	executorConnectionsMax = 16384
)

// open opens the HTTP listener and the executors' socket.
func (l *listeners) open(config Config, folder *dataFolder, welcome func(uid int) bool) error {
	if err := l.openHTTP(config); err != nil {
		return err
	}
	return l.openSocket(config, folder, welcome)
}

func (l *listeners) openHTTP(config Config) error {
	switch {
	case config.Listener != nil:
		l.http = newSharedListener(config.Listener, httpConnectionsMax)
	case config.Port > 0:
		listener, err := listenTCP(net.JoinHostPort(config.Bind, strconv.Itoa(config.Port)))
		if err != nil {
			return err
		}
		l.http = newSharedListener(listener, httpConnectionsMax)
	}
	if l.http != nil {
		l.address.Store(config.address(l.http.Addr()))
	}
	return nil
}

func (l *listeners) openSocket(config Config, folder *dataFolder, welcome func(uid int) bool) error {
	if config.ExecutorListener != nil {
		l.sockets = newSharedListener(config.ExecutorListener, executorConnectionsMax)
		l.socket = config.ExecutorListener.Addr().String()
		return nil
	}
	// If executors run as other users, every user may connect; the agent then asks the kernel who has connected.
	mode := fs.FileMode(0o600)
	if entry.Self().IsRoot() && (config.TaskUser != "" || len(config.TaskUsers) > 0) {
		mode = 0o666
	}
	listener, path, err := folder.listenSocket(mode)
	if err != nil {
		return api.E("agent.start", api.Internal, config.DataDir, err)
	}
	l.sockets, l.socket = newSharedListener(&peerListener{Listener: listener, welcome: welcome}, executorConnectionsMax), path
	return nil
}

func (l *listeners) close() error { return errors.Join(l.http.close(), l.sockets.close()) }

// httpAddress returns where others reach the HTTP listener; "" before it is open or if there is none.
func (l *listeners) httpAddress() string {
	address, _ := l.address.Load().(string)
	return address
}

func listenTCP(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, api.E("agent.listen", api.Exists, address,
			errors.New("the port is in use, perhaps by another agent on this machine; choose another one"))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, api.E("agent.listen", api.Invalid, address,
			errors.New("this is no address of this machine; name one of its own, or 0.0.0.0 for all"))
	case err != nil:
		return nil, api.E("agent.listen", api.Invalid, address, err)
	}
	return listener, nil
}
