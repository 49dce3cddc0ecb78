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
	behindDoors(t, func(a *abroad, _ *running, comers map[string]comer) {
		for who, comer := range comers {
			if in := a.comesIn(comer.dial, "host1:5070"); in != (comer.as == trust.Master) {
				a.t.Errorf("%s comes in to Raft: %v", who, in)
			}
			if in := a.calls(comer.dial, "host1:5060"); in != (comer.as != trust.Nobody) {
				a.t.Errorf("%s is answered by gRPC: %v", who, in)
			}
		}
	})
}

// comer is somebody who connects to a master.
type comer struct {
	dial trust.Dial
	as   trust.Kind // by a certificate that counts; Nobody: it has none
}

// behindDoors runs a test with a leader that has certificates, m1, and with everybody who may come to it.
func behindDoors(t *testing.T, test func(a *abroad, leader *running, comers map[string]comer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		key, foreign := trust.NewKey(), trust.NewKey()
		a := &abroad{house: &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}}
		t.Cleanup(a.close)
		a.start(master.Config{
			ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "none", Raft: "host1:5070", Listen: a.net.Listen,
			Dial: a.net.From("host1").Dial, Trust: master.Trust{Key: key}, Version: "test",
		})
		client := a.net.From("client").Dial
		ended := func(kind trust.Kind, name string) trust.Dial {
			return a.endedHolderOf(key, trust.Identity{Kind: kind, Name: name}).Dialer(client)
		}
		of := func(key trust.Key, kind trust.Kind, name string) trust.Dial {
			return a.holderOf(key, trust.Identity{Kind: kind, Name: name}).Dialer(client)
		}
		test(a, a.leader(), map[string]comer{
			"who speaks no TLS":              {dial: inPlain(client)},
			"who has no certificate":         {dial: uncertified(client)},
			"a master":                       {of(key, trust.Master, "m2"), trust.Master},
			"an agent":                       {of(key, trust.Agent, "m2"), trust.Agent},
			"a framework":                    {of(key, trust.Framework, "m2"), trust.Framework},
			"a person":                       {of(key, trust.Person, "m2"), trust.Person},
			"a master of another cluster":    {dial: of(foreign, trust.Master, "m2")},
			"a person of another cluster":    {dial: of(foreign, trust.Person, "admin")},
			"a master whose has ended":       {dial: ended(trust.Master, "m2")},
			"an agent whose has ended":       {dial: ended(trust.Agent, "a1")},
			"a framework whose has ended":    {dial: ended(trust.Framework, "etl")},
			"a person whose has ended":       {dial: ended(trust.Person, "admin")},
			"a joiner who has only a digest": {dial: trust.JoinDialer(client, a.digestOf(key))},
		})
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
