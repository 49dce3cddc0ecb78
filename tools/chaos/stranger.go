package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// comeAsStranger tries what somebody can do who has the network and nothing else.
func (c *certified) comeAsStranger(ctx context.Context, r *report) error {
	forged, err := forgedPass(c.holder.Pass().Identity().Cluster)
	if err != nil {
		return err
	}
	for _, m := range c.masters {
		grpcAddress, raftAddress := m.proxies[0].front, m.proxies[1].front
		for what, try := range map[string]func(context.Context) error{
			"without TLS": func(ctx context.Context) error { return askAsStranger(ctx, grpcAddress, transport.DialTCP) },
			"without a certificate": func(ctx context.Context) error {
				return askAsStranger(ctx, grpcAddress, unverified)
			},
			"by a certificate of another authority": func(ctx context.Context) error {
				return askAsStranger(ctx, grpcAddress, forged.Dialer(transport.DialTCP))
			},
			"as a master of another authority, on the Raft port": func(ctx context.Context) error {
				return greet(ctx, forged.Dialer(transport.DialTCP), raftAddress)
			},
			"without a certificate, on the Raft port": func(ctx context.Context) error { return greet(ctx, unverified, raftAddress) },
			"by a token that nobody has made":         c.joinByInventedToken,
			"over HTTP":                               func(ctx context.Context) error { return metricsAsStranger(ctx, m.http) },
		} {
			trying, cancel := context.WithTimeout(ctx, hangAfter)
			if try(trying) == nil {
				r.broken = append(r.broken, fmt.Sprintf("a stranger got something at %s, %s", m.name, what))
			}
			cancel()
		}
	}
	return nil
}

// forgedPass returns a pass of an authority that claims to be the cluster's.
func forgedPass(cluster string) (*trust.Holder, error) {
	other := trust.NewKey()
	key, err := trust.ParseKey([]byte(strings.Replace(string(other.Marshal()), other.Cluster(), cluster, 1)))
	if err != nil {
		return nil, err
	}
	authority, err := key.Authority()
	if err != nil {
		return nil, err
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
	return trust.NewHolder(pass), err
}

// unverified opens TLS to any server, and shows no certificate.
func unverified(ctx context.Context, address string) (net.Conn, error) {
	return (&tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // a stranger asks nobody who he is
		ServerName:         "member.tender", NextProtos: []string{"h2"},
	}}).DialContext(ctx, "tcp", address)
}

func askAsStranger(ctx context.Context, address string, dial trust.Dial) error {
	conn, err := transport.Connect(address, dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = apiv1.NewOperatorServiceClient(conn).GetCluster(ctx, &apiv1.GetClusterRequest{})
	return err
}

// greet reads from a connection on which nothing was sent: a peer that is admitted waits, and another one gets an
// error.
func greet(ctx context.Context, dial trust.Dial, address string) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return nil
	}
	return err
}

func (c *certified) joinByInventedToken(ctx context.Context) error {
	config := c.joining()
	_, err := joining.Join(ctx, config, trust.NewToken(c.holder.Pass().Authority()), trust.NewPass())
	return err
}

func metricsAsStranger(ctx context.Context, address string) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return unverifiedHTTP(ctx, address) },
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return api.E("http", api.Denied, address, errors.New(answer.Status))
	}
	return nil
}

func unverifiedHTTP(ctx context.Context, address string) (net.Conn, error) {
	return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}).DialContext(ctx, "tcp", address) //nolint:gosec // as above
}
