package remote

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// ServeConfig says which policy is served, where, and to which masters.
type ServeConfig struct {
	// Policy makes the policy for a session. Required.
	Policy allocator.New
	// Listener accepts the masters' connections. Required; Serve closes it.
	Listener net.Listener
	// Token is a framework's token, with which the allocator joins a cluster with certificates. Then only masters of
	// that cluster are let in, and these give the session only to a principal with the grant `allocate`. Default: the
	// allocator has no certificate.
	Token string
	// Masters are the gRPC addresses of some masters, which sign and renew the certificate. Required with a token.
	Masters []string
	// Insecure lets the allocator listen beyond this machine without a token, on a trusted network. Refused with a
	// token.
	Insecure bool
	// Dial opens connections to masters. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Failed is called when a master gives no certificate yet, with the reason. It may be nil.
	Failed func(master string, err error)
}

// check returns what is wrong with the config, or nil.
func (c ServeConfig) check() error {
	if c.Policy == nil || c.Listener == nil {
		return api.E(serveOp, api.Invalid, "", errors.New("name the policy and the listener"))
	}
	var wrong error
	switch at, tcp := c.Listener.Addr().(*net.TCPAddr); {
	case c.Insecure && c.Token != "":
		wrong = errors.New("insecure and a token exclude each other: who joins a cluster does nothing unencrypted")
	case c.Token == "" && tcp && !at.IP.IsLoopback() && !c.Insecure:
		wrong = errors.New("it can be reached by others and there is no TLS: name a token (an operator makes one: tender token create " +
			"framework --principal NAME), or say insecure if their network is trusted")
	case c.Token != "" && len(c.Masters) == 0:
		wrong = errors.New("who joins by a token needs the addresses of some masters")
	default:
		return nil
	}
	return api.E(serveOp, api.Invalid, c.Listener.Addr().String(), wrong)
}

const serveOp = "allocator.serve"

// Serve serves a policy to masters until ctx ends. If it can't serve, it returns an error that says why.
func Serve(ctx context.Context, config ServeConfig) error {
	if err := config.check(); err != nil {
		return err
	}
	if config.Dial == nil {
		config.Dial = transport.DialTCP
	}
	var options []grpc.ServerOption
	if config.Token != "" {
		keep, holder, err := config.join(ctx)
		if err != nil {
			return errors.Join(err, config.Listener.Close())
		}
		defer keep()
		options = append(options, grpc.Creds(transport.ServerCredentials(holder, trust.Door{Kinds: []trust.Kind{trust.Master}})))
	}
	server := grpc.NewServer(options...)
	apiv1.RegisterAllocatorServiceServer(server, &Server{Policy: config.Policy})
	over := context.AfterFunc(ctx, server.Stop)
	defer over()
	return server.Serve(config.Listener)
}

// join gets a certificate, and renews it until end is called.
func (c ServeConfig) join(ctx context.Context) (end func(), holder *trust.Holder, err error) {
	how := joining.Config{Masters: c.Masters, Dial: c.Dial, Failed: c.Failed}
	holder, how.Token, err = joining.Member(ctx, how, c.Token, trust.Framework)
	if err != nil {
		return nil, nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		joining.Keep(keeping, holder, func() joining.Config { return how }, func(*trust.Pass) error { return nil })
	}()
	return func() { stop(); <-kept }, holder, nil
}
