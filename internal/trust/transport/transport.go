// Package transport opens and accepts gRPC connections, and says who is at their other end.
package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/tenderhq/tender/internal/trust"
)

// DialTCP opens a connection without TLS. Programs use it unless they are given another dialer.
func DialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// ListenTCP opens a listener for peers that send first, as clients of gRPC, HTTP and Raft do. On Linux the kernel keeps
// a connection back for some seconds until its first bytes have arrived. So a peer that connects and sends nothing
// costs no descriptor and no memory here.
func ListenTCP(address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		return socket.Control(deferAccept)
	}}
	return config.Listen(context.Background(), "tcp", address)
}

// Connect makes a gRPC connection to an address, without waiting for it. The dialer opens it, and it is the dialer that
// proves and checks identities: a holder's dialer opens TLS, any other one plain text.
func Connect(address string, dial trust.Dial, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // what the dialer returns is encrypted already
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, address) }),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
	}, more...)...)
}

// ServerCredentials let a gRPC server admit the peers that the holder's door admits. The context of each call says who
// the caller is; see [CallerOf].
func ServerCredentials(holder *trust.Holder, door trust.Door) credentials.TransportCredentials {
	door.Protocols = []string{"h2"}
	return serverCredentials{holder.Server(door), trust.NewTurns()}
}

// SignedAt returns when the certificate of a gRPC caller was signed; zero if the caller has shown none.
func SignedAt(ctx context.Context) time.Time {
	if from, known := peer.FromContext(ctx); known {
		if info, ours := from.AuthInfo.(authInfo); ours {
			return info.signed
		}
	}
	return time.Time{}
}

// CallerOf returns who made the gRPC or HTTP call of this context; nobody if its connection has shown no certificate.
func CallerOf(ctx context.Context) trust.Identity {
	if from, known := peer.FromContext(ctx); known {
		if info, ours := from.AuthInfo.(authInfo); ours {
			return info.identity
		}
	}
	return trust.Of(ctx)
}

// HowToAdvertise is the advice for a process whose address others would be told as "every address", at which each of
// them would reach itself.
const HowToAdvertise = "it listens at all addresses of this machine, and at which of them others reach it nobody can tell; say it: --advertise HOST"

// CheckAdvertised says what is wrong with the host at which others are told to reach this process. Nobody can reach an
// address with a scheme, a path or a port that does not exist, and only those others would find that out.
func CheckAdvertised(host string) error {
	address, err := netip.ParseAddr(host)
	switch {
	case err == nil && address.IsUnspecified():
		return fmt.Errorf("nobody reaches a machine at %s; write one of its names or addresses, such as 10.0.0.7", host)
	case err == nil, hostName().MatchString(host):
		return nil
	}
	return fmt.Errorf("%q is neither the name of a host nor an address; write one such as node7.example or 10.0.0.7", host)
}

// hostName matches names of hosts. Underscores are not allowed in them but are used all the same.
var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)
})
