package master_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/transport"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/master"
)

// TestNobodyPassesTheDoorsOfAMasterByTheWrongCertificate tries the sockets for Raft and for gRPC as everybody: to Raft's, where
// each message is believed, come masters alone, and a certificate that has ended or is of another cluster opens neither.
func TestNobodyPassesTheDoorsOfAMasterByTheWrongCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, foreign := trust.NewKey(), trust.NewKey()
		a := &abroad{house: &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}}
		t.Cleanup(a.close)
		a.start(master.Config{
			ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "none", Raft: "host1:5070", Listen: a.net.Listen,
			Dial: a.net.From("host1").Dial, Trust: master.Trust{Key: key}, Version: "test",
		})
		a.leader()
		client := a.net.From("client").Dial
		ended := func(kind trust.Kind, name string) trust.Dial {
			return a.endedHolderOf(key, trust.Identity{Kind: kind, Name: name}).Dialer(client)
		}
		of := func(key trust.Key, kind trust.Kind, name string) trust.Dial {
			return a.holderOf(key, trust.Identity{Kind: kind, Name: name}).Dialer(client)
		}
		for who, test := range map[string]struct {
			dial       trust.Dial
			raft, grpc bool
		}{
			"who speaks no TLS":              {inPlain(client), false, false},
			"who has no certificate":         {uncertified(client), false, false},
			"a master":                       {of(key, trust.Master, "m2"), true, true},
			"an agent":                       {of(key, trust.Agent, "m2"), false, true},
			"a framework":                    {of(key, trust.Framework, "m2"), false, true},
			"a person":                       {of(key, trust.Person, "m2"), false, true},
			"a master of another cluster":    {of(foreign, trust.Master, "m2"), false, false},
			"a person of another cluster":    {of(foreign, trust.Person, "admin"), false, false},
			"a master whose has ended":       {ended(trust.Master, "m2"), false, false},
			"an agent whose has ended":       {ended(trust.Agent, "a1"), false, false},
			"a framework whose has ended":    {ended(trust.Framework, "etl"), false, false},
			"a person whose has ended":       {ended(trust.Person, "admin"), false, false},
			"a joiner who has only a digest": {trust.JoinDialer(client, a.digestOf(key)), false, false},
		} {
			if in := a.comesIn(test.dial, "host1:5070"); in != test.raft {
				t.Errorf("%s comes in to Raft: %v, want %v", who, in, test.raft)
			}
			if in := a.calls(test.dial, "host1:5060"); in != test.grpc {
				t.Errorf("%s is answered by gRPC: %v, want %v", who, in, test.grpc)
			}
		}
	})
}

// inPlain speaks as if there was no TLS.
func inPlain(dial trust.Dial) trust.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		}
		return conn, err
	}
}

// uncertified speaks TLS, and shows nothing.
func uncertified(dial trust.Dial) trust.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}), nil
	}
}

// endedHolderOf holds a certificate that has ended.
func (a *abroad) endedHolderOf(key trust.Key, identity trust.Identity) *trust.Holder {
	a.t.Helper()
	authority, err := key.Authority()
	if err != nil {
		a.t.Fatal(err)
	}
	pass, err := authority.Issue(identity, time.Now().Add(-365*24*time.Hour))
	if err != nil {
		a.t.Fatal(err)
	}
	return trust.NewHolder(pass)
}

func (a *abroad) digestOf(key trust.Key) trust.Digest {
	a.t.Helper()
	authority, err := key.Authority()
	if err != nil {
		a.t.Fatal(err)
	}
	return authority.Digest()
}

// comesIn says whether a connection is kept open until its first word, for which Raft waits.
func (a *abroad) comesIn(dial trust.Dial, address string) bool {
	conn, err := dial(a.t.Context(), address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if secured, is := conn.(*tls.Conn); is && secured.HandshakeContext(a.t.Context()) != nil {
		return false
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		a.t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// calls says whether a question that is everybody's in the cluster is answered.
func (a *abroad) calls(dial trust.Dial, address string) bool {
	conn, err := transport.Connect(address, dial)
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.Close()
	_, err = apiv1.NewOperatorServiceClient(conn).WhoAmI(a.t.Context(), &apiv1.WhoAmIRequest{})
	return err == nil
}
