package master

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/names"
	"github.com/tenderhq/tender/master/registry"
)

// listeners is where this master is reached: its listeners, and the addresses that others are told.
type listeners struct {
	config *Config
	intake *intake.Intake

	grpc, raft, http net.Listener  // http is nil if there is none
	names            *names.Server // nil: there is none
}

// listen opens a listener for at most limit connections at a time.
func (a *listeners) listen(what, address string, limit int64) (net.Listener, error) {
	listener, err := a.config.listen(what, address)
	if err != nil {
		return nil, err
	}
	return a.intake.Bound(listener, limit), nil
}

// grpcAddress returns the address under which others reach the gRPC listener.
func (a *listeners) grpcAddress() string { return a.config.advertised(a.grpc.Addr().String()) }

// httpAddress returns the address under which others reach the HTTP listener; "" when there is none.
func (a *listeners) httpAddress() string {
	if a.http == nil {
		return ""
	}
	return a.config.advertised(a.http.Addr().String())
}

// raftAddress returns the address under which others reach the Raft listener.
func (a *listeners) raftAddress() string { return a.config.advertised(a.raft.Addr().String()) }

// record returns what the registry should say about this master.
func (a *listeners) record() registry.Master {
	return registry.Master{
		GRPC: a.grpcAddress(), HTTP: a.httpAddress(), Raft: a.raftAddress(), Version: a.config.Version, Allocator: a.config.Allocator,
	}
}

// keepAddresses writes the addresses of the listeners down, so that a restart uses the same ports.
func (a *listeners) keepAddresses() error {
	config := *a.config
	config.GRPC = a.grpc.Addr().String()
	config.Raft = a.raft.Addr().String()
	if a.http != nil {
		config.HTTP = a.http.Addr().String()
	}
	return config.keep()
}

// listen opens a listener; its error says what is wrong with the address.
func (c Config) listen(what, address string) (net.Listener, error) {
	listener, err := c.Listen(address)
	return listener, listenError(what, address, err)
}

// listenError explains why a listener can't be opened; nil without an error.
func listenError(what, address string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return api.E("master.listen", api.Exists, address,
			fmt.Errorf("the %s port is in use; end what listens there, or choose another port", what))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return api.E("master.listen", api.Invalid, address,
			fmt.Errorf("the %s listener can't be opened: this is no address of this machine; name one of its own, or 0.0.0.0 for all", what))
	case errors.Is(err, syscall.EACCES):
		return api.E("master.listen", api.Denied, address, fmt.Errorf("this user may not open the %s port: %w", what, err))
	}
	return api.E("master.listen", api.Unavailable, address, fmt.Errorf("the %s listener can't be opened: %w", what, err))
}
