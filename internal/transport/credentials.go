package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tenderhq/tender/internal/trust"
)

// authInfo is who is at the other end of a connection of gRPC.
type authInfo struct {
	credentials.CommonAuthInfo
	identity trust.Identity
	signed   time.Time // its certificate
}

// AuthType is TLS's.
func (authInfo) AuthType() string { return "tls" }

// serverCredentials are TLS of a configuration that is used as it is: gRPC's own would copy it, and with it the keys of
// session tickets, which change.
type serverCredentials struct{ config *tls.Config }

// ServerHandshake lets a peer in. gRPC bounds how long it may take.
func (c serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, c.config)
	if err := conn.Handshake(); err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	info := authInfo{identity: trust.PeerOf(conn), signed: trust.SignedAt(conn)}
	info.SecurityLevel = credentials.PrivacyAndIntegrity
	return conn, info, nil
}

// ClientHandshake is never needed: clients' dialers do it.
func (c serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info describes them.
func (c serverCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone shares the configuration.
func (c serverCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName is nothing of a server's.
func (c serverCredentials) OverrideServerName(string) error { return nil }
