package master_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/remote"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/master"
)

const policyAddress = "policy:7070"

// abroad is a master with certificates whose policy runs elsewhere, inside a synctest bubble.
type abroad struct {
	*house
	log      notebook
	admin    *trust.Holder
	operator apiv1.OperatorServiceClient
	sessions atomic.Int32 // that policies were given
}

func (a *abroad) policy(config allocator.Config) (allocator.Allocator, error) {
	a.sessions.Add(1)
	return fairshare.New(config)
}

// await lets time pass until the master has logged this, and begins a new page.
func (a *abroad) await(text string) {
	a.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(a.log.String(), text); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("the log does not say %q:\n%s", text, a.log.String())
		}
	}
	a.log.tear()
}

// serve serves where the master looks for its policy, until the function that it returns is called.
func (a *abroad) serve(config remote.ServeConfig) (stop func()) {
	a.t.Helper()
	var err error
	if config.Listener, err = a.net.Listen(policyAddress); err != nil {
		a.t.Fatal(err)
	}
	config.Policy, config.Dial = a.policy, a.net.From("policy").Dial
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- remote.Serve(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(stop)
	return stop
}

// ask opens a session as a master does, by that dialer, and says what comes of it.
func (a *abroad) ask(dial trust.Dial) error {
	a.t.Helper()
	conn, err := transport.Connect(policyAddress, dial)
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.Close()
	stream, err := apiv1.NewAllocatorServiceClient(conn).Session(a.t.Context())
	if err != nil {
		return err
	}
	if err := stream.Send(&apiv1.AllocatorInputs{First: 1}); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// holderOf returns a holder with a certificate for the identity, signed by the cluster's authority.
func (a *abroad) holderOf(key trust.Key, identity trust.Identity) *trust.Holder {
	a.t.Helper()
	authority, err := key.Authority()
	if err != nil {
		a.t.Fatal(err)
	}
	pass, err := authority.Issue(identity, time.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	return trust.NewHolder(pass)
}

// A policy in another process is given a session when it shows a certificate of the cluster, of a principal that was granted
// to allocate, and for as long as that is so; and it answers masters of its cluster alone. The master leads all the while.
func TestAPolicyElsewhereProvesWhoItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, foreign := trust.NewKey(), trust.NewKey()
		a := &abroad{house: &house{t: t, net: memnet.New(), masters: map[api.MasterID]*running{}}}
		t.Cleanup(a.close)
		log := zerolog.New(&a.log)
		a.start(master.Config{
			ID: "m1", Memory: master.NewMemory(), GRPC: "host1:5060", HTTP: "none", Raft: "host1:5070", Listen: a.net.Listen,
			Dial: a.net.From("host1").Dial, Trust: master.Trust{Key: key}, Allocator: "remote:" + policyAddress, Logger: &log, Version: "test",
		})
		term, _ := a.leader().Leading()
		masters, client := []string{"host1:5060"}, a.net.From("client").Dial
		first, err := key.FirstToken()
		if err != nil {
			t.Fatal(err)
		}
		a.admin, _, err = joining.Member(t.Context(), joining.Config{Masters: masters, Dial: client}, first.String(), trust.Person)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := transport.Connect(masters[0], a.admin.Dialer(client, trust.Master))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		a.operator = apiv1.NewOperatorServiceClient(conn)
		token, err := a.operator.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "framework", Principal: "policy", Roles: []string{"policy"}})
		if err != nil {
			t.Fatal(err)
		}

		stop := a.serve(remote.ServeConfig{})
		a.await("what listens there speaks no TLS")
		stop()
		stranger := a.holderOf(foreign, trust.Identity{Kind: trust.Framework, Name: "policy"})
		stop = a.serveAs(stranger)
		a.await("denied: it is of cluster")
		stop()
		stop = a.serveAs(a.admin)
		a.await("it is no framework")
		stop()
		a.serve(remote.ServeConfig{Token: token.GetToken(), Masters: masters})
		a.await("it needs the grant 'admin' or 'allocate'; an operator gives it: tender grant policy allocate")
		if n := a.sessions.Load(); n != 0 {
			t.Fatalf("%d policies were given a session", n)
		}

		grant := &apiv1.PrincipalGrant{Verb: "allocate"}
		if _, err := a.operator.Grant(t.Context(), &apiv1.GrantRequest{Principal: "policy", Grant: grant}); err != nil {
			t.Fatal(err)
		}
		a.await("allocator is there")
		for who, dial := range map[string]trust.Dial{
			"nobody":               client,
			"a person":             a.admin.Dialer(client),
			"a framework":          a.holderOf(key, trust.Identity{Kind: trust.Framework, Name: "policy"}).Dialer(client),
			"a master of another":  a.holderOf(foreign, trust.Identity{Kind: trust.Master, Name: "m1"}).Dialer(client),
			"a joiner by a token":  trust.JoinDialer(client, first.Digest),
			"a master, unproven":   (*trust.Holder)(nil).Dialer(client),
			"a stranger over TLS ": stranger.Dialer(client),
		} {
			if err := a.ask(dial); err == nil {
				t.Errorf("%s was given a session", who)
			} else {
				t.Logf("%s: %v", who, err)
			}
		}
		if n := a.sessions.Load(); n != 1 {
			t.Errorf("%d policies were given a session", n)
		}

		if _, err := a.operator.Revoke(t.Context(), &apiv1.RevokeRequest{Principal: "policy", Grant: grant}); err != nil {
			t.Fatal(err)
		}
		a.await("the connection to the allocator is closed: it has lost the right")
		if _, err := a.operator.Grant(t.Context(), &apiv1.GrantRequest{Principal: "policy", Grant: grant}); err != nil {
			t.Fatal(err)
		}
		a.await("allocator is there")
		if _, err := a.operator.Revoke(t.Context(), &apiv1.RevokeRequest{Principal: "policy"}); err != nil {
			t.Fatal(err)
		}
		a.await("it was revoked at")
		if now, leads := a.masters["m1"].Leading(); !leads || now != term {
			t.Errorf("it leads: %v, in term %v after %v", leads, now, term)
		}
	})
}

// serveAs serves by a certificate that does not come from the masters' tokens.
func (a *abroad) serveAs(who *trust.Holder) (stop func()) {
	a.t.Helper()
	listener, err := a.net.Listen(policyAddress)
	if err != nil {
		a.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(transport.ServerCredentials(who, trust.Door{})))
	apiv1.RegisterAllocatorServiceServer(server, &remote.Server{Policy: a.policy})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(stop)
	return stop
}
