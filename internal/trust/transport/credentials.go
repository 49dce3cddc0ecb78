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

// authInfo says who is at the other end of a gRPC connection.
type authInfo struct {
	credentials.CommonAuthInfo
	identity trust.Identity
	signed   time.Time // when its certificate was signed
}

// AuthType returns the type of TLS.
func (authInfo) AuthType() string { return "tls" }

// serverCredentials use a TLS configuration as it is. gRPC's own credentials would copy it, with the keys of session
// tickets, which change.
type serverCredentials struct {
	config *tls.Config
	turns  trust.Turns
}

// ServerHandshake admits a peer or refuses it. gRPC limits how long it may take.
func (c serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, err := c.turns.Handshake(raw, c.config)
	if err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	info := authInfo{identity: trust.PeerOf(conn), signed: trust.SignedAt(conn)}
	info.SecurityLevel = credentials.PrivacyAndIntegrity
	return conn, info, nil
}

// ClientHandshake is never needed: the dialers of clients do the handshake.
func (c serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info describes the credentials.
func (c serverCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns credentials that share the configuration.
func (c serverCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName does nothing, because a server has no such name.
func (c serverCredentials) OverrideServerName(string) error { return nil }
