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

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
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

// comer is a peer that connects to a master.
type comer struct {
	dial trust.Dial
	as   trust.Kind // by a certificate that counts; Nobody: it has none
	// Of a master: its name, and the term in which it says that it leads. Zero: m2, which was never in the quorum, and
	// the first term.
	name string
	term uint64
}

// behindDoors runs a test with a leader that has certificates, m1, and with all kinds of peers that may connect to it.
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
		leader := a.leader()
		a.logIn(key, client)
		a.revoked("revoked")
		removed := comer{of(key, trust.Master, "m3"), trust.Master, "m3", a.deposed("m3", key)}
		test(a, leader, map[string]comer{
			"who speaks no TLS":              {dial: inPlain(client)},
			"who has no certificate":         {dial: uncertified(client)},
			"a master":                       {dial: of(key, trust.Master, "m2"), as: trust.Master},
			"a master that was removed":      removed,
			"an agent":                       {dial: of(key, trust.Agent, "m2"), as: trust.Agent},
			"a framework":                    {dial: of(key, trust.Framework, "m2"), as: trust.Framework},
			"a person":                       {dial: of(key, trust.Person, "m2"), as: trust.Person},
			"a framework that was revoked":   {dial: of(key, trust.Framework, "revoked")},
			"a person who was revoked":       {dial: of(key, trust.Person, "revoked")},
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

// logIn makes the first operator of the cluster, so that the test may change it.
func (a *abroad) logIn(key trust.Key, dial trust.Dial) {
	a.t.Helper()
	first, err := key.FirstToken()
	if err != nil {
		a.t.Fatal(err)
	}
	a.admin, _, err = joining.Member(a.t.Context(), joining.Config{Masters: []string{"host1:5060"}, Dial: dial}, first.String(), trust.Person)
	if err != nil {
		a.t.Fatal(err)
	}
	a.operator = apiv1.NewOperatorServiceClient(a.asAdmin("host1:5060"))
}

// asAdmin connects to a master as the first operator.
func (a *abroad) asAdmin(address string) *grpc.ClientConn {
	a.t.Helper()
	conn, err := transport.Connect(address, a.admin.Dialer(a.net.From("client").Dial, trust.Master))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// revoked makes a principal, and ends it. Certificates of it that were signed are good for long.
func (a *abroad) revoked(name string) {
	a.t.Helper()
	if _, err := a.operator.Grant(a.t.Context(), &apiv1.GrantRequest{Principal: name, Grant: &apiv1.PrincipalGrant{Verb: "admin"}}); err != nil {
		a.t.Fatal(err)
	}
	if _, err := a.operator.Revoke(a.t.Context(), &apiv1.RevokeRequest{Principal: name}); err != nil {
		a.t.Fatal(err)
	}
}

// deposed has a master join the quorum, lead it, hand it back to m1 and be removed. It returns the term in which it has led.
func (a *abroad) deposed(id api.MasterID, key trust.Key) (term uint64) {
	a.t.Helper()
	const host = "host3"
	other := a.start(master.Config{
		ID: id, Memory: master.NewMemory(), Peers: []master.Peer{{ID: "m1", Addr: "host1:5070"}}, GRPC: host + ":5060", HTTP: "none", Raft: host + ":5070", Listen: a.net.Listen,
		Dial: a.net.From(host).Dial, Trust: master.Trust{Key: key}, Version: "test",
	})
	here, there := apiv1.NewRaftServiceClient(a.asAdmin("host1:5060")), apiv1.NewRaftServiceClient(a.asAdmin(host+":5060"))
	if _, err := here.AddPeer(a.t.Context(), &apiv1.AddPeerRequest{Id: string(id), RaftAddress: host + ":5070"}); err != nil {
		a.t.Fatal(err)
	}
	if _, err := here.TransferLeader(a.t.Context(), &apiv1.TransferLeaderRequest{Id: string(id)}); err != nil {
		a.t.Fatal(err)
	}
	led := a.leads(other)
	if _, err := there.TransferLeader(a.t.Context(), &apiv1.TransferLeaderRequest{Id: "m1"}); err != nil {
		a.t.Fatal(err)
	}
	a.leads(a.masters["m1"])
	if _, err := here.RemovePeer(a.t.Context(), &apiv1.RemovePeerRequest{Id: string(id)}); err != nil {
		a.t.Fatal(err)
	}
	if err := <-other.ended; !api.Is(err, api.Removed) {
		a.t.Errorf("%s was removed, and ended with %v", id, err)
	}
	delete(a.masters, id)
	return led.Number
}

// leads waits until a master leads to which leadership was handed over, and returns the term. The master that handed it
// over may take itself for the leader for a moment longer.
func (a *abroad) leads(r *running) api.Term {
	a.t.Helper()
	return master.UntilLeads(a.t, r.Master)
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
