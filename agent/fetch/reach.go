package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// A URI may name any host that the agent can reach, but no server may redirect the agent wherever it likes. Link-local
// addresses, at which clouds tell machines their secrets, are never used. Addresses of the agent's own machine are used
// only if the URI itself names them.

// redirectsMax is how often a server may redirect a request.
const redirectsMax = 10

// redirected marks the context of a request that follows a redirect.
type redirected struct{}

// SentOn marks the context of a request that follows a redirect.
func SentOn(ctx context.Context) context.Context { return context.WithValue(ctx, redirected{}, true) }

// NewTransport makes a transport that connects only to addresses that may be reached, or to any address if local.
func NewTransport(local bool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	if local {
		return transport
	}
	// Each request dials anew, because which addresses may be dialed depends on the request.
	transport.DisableKeepAlives = true
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return reachable(at.Addr().Unmap(), ctx.Value(redirected{}) != nil)
	}
	transport.DialContext = dialer.DialContext
	return transport
}

// newClient makes a client that connects only to addresses that may be reached, or to any address if local.
func newClient(local bool) *http.Client {
	client := &http.Client{Transport: NewTransport(local)}
	if local {
		return client
	}
	client.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if len(via) >= redirectsMax {
			return fmt.Errorf("sent on more than %d times", redirectsMax)
		}
		*request = *request.WithContext(SentOn(request.Context()))
		// Through a proxy the address is not seen here, so only the name can be judged.
		if address, err := netip.ParseAddr(request.URL.Hostname()); err == nil {
			return reachable(address.Unmap(), true)
		}
		return nil
	}
	return client
}

// reachable returns why an address is not used, or nil.
func reachable(address netip.Addr, sentOn bool) error {
	switch {
	case address.IsLinkLocalUnicast() || address.IsLinkLocalMulticast() || address.IsMulticast():
		return fmt.Errorf("%s is an address of the agent's own link, which is not asked; start the agent with --fetch-local to allow it", address)
	case sentOn && (address.IsLoopback() || address.IsUnspecified()):
		return fmt.Errorf("the server sends the agent on to %s, its own machine; name that address in the URI, or start the agent with --fetch-local", address)
	}
	return nil
}
