package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

// hostProofTimeout bounds how long a gateway waits for its certificate before it gives up.
const hostProofTimeout = time.Minute

// hostProof is how a gateway proves itself to programs that know nothing of Tender, and how it reaches other gateways;
// nil: without TLS.
type hostProof struct {
	serve *tls.Config
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	end   func()
}

func (f mesosFlags) prove(ctx context.Context, who *caller.Caller, masters []string, token string) (hostProof, error) {
	switch {
	case f.tls:
		return f.proveByCluster(ctx, who, masters, token)
	case f.cert == "":
		return hostProof{end: func() {}}, nil
	}
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return hostProof{}, caller.Usage(fmt.Errorf("--cert and --key: %w", err))
	}
	return hostProof{
		serve: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12},
		dial:  new(tls.Dialer).DialContext, end: func() {},
	}, nil
}

// proveByCluster gets a certificate of the cluster's authority that names the gateway's hosts, and renews it until end is
// called.
func (f mesosFlags) proveByCluster(ctx context.Context, who *caller.Caller, masters []string, token string) (hostProof, error) {
	near := nearby.UsersOf(who.Lookup)
	how := joining.Config{
		Masters: nearby.Masters(near, masters, client.DefaultMaster), Dial: transport.DialTCP,
		Failed: func(_ string, err error) { fmt.Fprintln(who.Stderr, err) },
	}
	token = cmp.Or(token, nearby.Token(near, how.Masters))
	if token == "" {
		return hostProof{}, caller.Usage(errors.New("--tls needs the token of a principal in TENDER_TOKEN: by it the gateway gets its certificate"))
	}
	asking, done := context.WithTimeout(ctx, hostProofTimeout)
	defer done()
	holder, joined, err := joining.Member(asking, how, token, trust.Framework, trust.Person)
	if err != nil {
		return hostProof{}, err
	}
	how.Token = joined
	for _, host := range []string{f.bind, f.advertise} {
		if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() {
			how.Hosts = append(how.Hosts, host)
		}
	}
	pass, err := joining.Renew(asking, how, holder)
	if err != nil {
		return hostProof{}, err
	}
	holder.Replace(pass)
	keeping, stop := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() {
		joining.Keep(keeping, holder, func() joining.Config { return how }, func(*trust.Pass) error { return nil })
	})
	return hostProof{
		serve: holder.ForHosts(),
		dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return holder.HostDialer(transport.DialTCP)(ctx, address)
		},
		end: func() {
			stop()
			kept.Wait()
		},
	}, nil
}
