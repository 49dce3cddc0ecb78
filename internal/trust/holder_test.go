package trust_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/testing/memnet"
	"github.com/tenderhq/tender/internal/trust"
)

// cluster is a key with its authority.
type cluster struct {
	t   *testing.T
	key trust.Key
	ca  *trust.Authority
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	key := trust.NewKey()
	ca, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	return cluster{t, key, ca}
}

func (c cluster) holder(kind trust.Kind, name string) *trust.Holder {
	c.t.Helper()
	pass, err := c.ca.Issue(trust.Identity{Kind: kind, Name: name}, time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	return trust.NewHolder(pass)
}

// met is how the connection of a server and a client went.
type met struct {
	server, client trust.Identity
	resumed        bool
	exchange       tls.CurveID
	served, dialed error
}

// meet lets a client dial a server, which sends one byte. It returns what each has learnt about the other.
func meet(t *testing.T, server *tls.Config, wrap func(trust.Dial) trust.Dial) met {
	t.Helper()
	near, far := pipe(t)
	result, done := met{}, make(chan struct{})
	go func() {
		defer close(done)
		conn := tls.Server(far, server)
		defer conn.Close()
		if result.served = conn.Handshake(); result.served == nil {
			state := conn.ConnectionState()
			result.server, result.resumed, result.exchange = trust.PeerOf(conn), state.DidResume, state.CurveID
			_, result.served = conn.Write([]byte("!"))
		}
	}()
	conn, err := wrap(func(context.Context, string) (net.Conn, error) { return near, nil })(t.Context(), "there")
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1)) // a refusal of the client's certificate, and tickets, come with the first byte
		result.client = trust.PeerOf(conn)
		_ = conn.Close()
	}
	result.dialed = err
	_ = near.Close()
	<-done
	return result
}

// pipe returns a connection in memory, with a buffer for what the other side has not read.
func pipe(t *testing.T) (near, far net.Conn) {
	t.Helper()
	n := memnet.New()
	listener, err := n.Listen("there:1")
	if err != nil {
		t.Fatal(err)
	}
	if near, err = n.From("here").Dial(t.Context(), "there:1"); err == nil {
		far, err = listener.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

func dialer(h *trust.Holder, kinds ...trust.Kind) func(trust.Dial) trust.Dial {
	return func(dial trust.Dial) trust.Dial { return h.Dialer(dial, kinds...) }
}

func TestBothSidesLearnWhoTheOtherIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time begins in the year 2000 here
		c := newCluster(t)
		m1, a1 := c.holder(trust.Master, "m1"), c.holder(trust.Agent, "a1")
		got := meet(t, m1.Server(trust.Door{}), dialer(a1, trust.Master))
		if got.served != nil || got.dialed != nil {
			t.Fatalf("they did not meet: %v, %v", got.served, got.dialed)
		}
		if got.server.String() != "spiffe://"+c.key.Cluster()+"/agent/a1" || got.client.String() != "spiffe://"+c.key.Cluster()+"/master/m1" {
			t.Errorf("the server met %v, the client met %v", got.server, got.client)
		}
	})
}

func TestWhoIsNotOfTheClusterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := newCluster(t), newCluster(t)
		m1 := c.holder(trust.Master, "m1")
		forged := forge(t, c, other)
		for name, test := range map[string]struct {
			door trust.Door
			wrap func(trust.Dial) trust.Dial
		}{
			"another cluster":       {trust.Door{}, dialer(other.holder(trust.Agent, "a1"))},
			"a name of the cluster": {trust.Door{}, dialer(forged)},
			"another kind":          {trust.Door{Kinds: []trust.Kind{trust.Master}}, dialer(c.holder(trust.Agent, "a1"))},
			"no certificate": {trust.Door{}, func(dial trust.Dial) trust.Dial {
				return func(ctx context.Context, address string) (net.Conn, error) {
					conn, err := dial(ctx, address)
					return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), err
				}
			}},
			"a token where none is taken": {trust.Door{}, func(dial trust.Dial) trust.Dial { return trust.JoinDialer(dial, c.ca.Digest()) }},
			"no TLS":                      {trust.Door{Joiners: true, Strangers: true}, func(dial trust.Dial) trust.Dial { return plain(dial) }},
		} {
			if got := meet(t, m1.Server(test.door), test.wrap); got.served == nil || got.dialed == nil {
				t.Errorf("%s: the server says %v, the client %v; want errors", name, got.served, got.dialed)
			}
		}
		if got := meet(t, c.holder(trust.Agent, "a1").Server(trust.Door{}), dialer(m1, trust.Master)); got.dialed == nil {
			t.Error("an agent was taken for a master")
		}
	})
}

// plain sends plain text to a server.
func plain(dial trust.Dial) trust.Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		}
		return conn, err
	}
}

// forge returns a pass of another cluster's authority with the names of this cluster.
func forge(t *testing.T, c, other cluster) *trust.Holder {
	t.Helper()
	text := strings.Replace(string(other.key.Marshal()), other.key.Cluster(), c.key.Cluster(), 1)
	key, err := trust.ParseKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	return cluster{t, key, ca}.holder(trust.Master, "m1")
}

func TestACertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m1, f1 := c.holder(trust.Master, "m1"), c.holder(trust.Framework, "f1")
		var ended []string
		server := m1.Server(trust.Door{Tickets: c.key, Ended: func(e *trust.EndedError) { ended = append(ended, e.Identity.Name+": "+e.Error()) }})
		if got := meet(t, server, dialer(f1)); got.dialed != nil {
			t.Fatal(got.dialed)
		}
		pause.For(t.Context(), trust.Lives{}.Of(trust.Framework)+time.Minute)
		again, err := c.ca.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m1.Replace(again)
		if got := meet(t, server, dialer(f1)); got.served == nil || got.dialed == nil {
			t.Errorf("a day later the framework is let in: %v, %v", got.served, got.dialed)
		}
		forged := newCluster(t).holder(trust.Framework, "f2")
		pause.For(t.Context(), trust.Lives{}.Of(trust.Framework))
		if got := meet(t, server, dialer(forged)); got.dialed == nil {
			t.Error("who is of another cluster is let in")
		}
		if want := []string{"f1: its certificate has ended at 2000-01-02T00:00:00Z"}; !slices.Equal(ended, want) {
			t.Errorf("the master hears of %q, want %q", ended, want)
		}
		if again, err = c.ca.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		m1.Replace(again)
		renewed, err := c.ca.Issue(trust.Identity{Kind: trust.Framework, Name: "f1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		f1.Replace(renewed)
		if got := meet(t, server, dialer(f1)); got.dialed != nil {
			t.Errorf("with its new pass it is not: %v", got.dialed)
		}
	})
}

// TestWhoWasAwayForAWholeOverlapLearnsIt: the authority of such a member is not known any more, and the member is told
// what to do. A master that meets it is told who it was.
func TestWhoWasAwayForAWholeOverlapLearnsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		away, agent := c.holder(trust.Master, "m3"), c.holder(trust.Agent, "n1")
		fresh, err := trust.NewAuthority(c.key.Cluster())
		if err != nil {
			t.Fatal(err)
		}
		next, err := fresh.After(c.ca, time.Now(), time.Now().Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		pause.For(t.Context(), 3*time.Hour)
		m1 := cluster{t, c.key, next}.holder(trust.Master, "m1")
		var ended []string
		server := m1.Server(trust.Door{Ended: func(e *trust.EndedError) { ended = append(ended, e.Identity.Name+": "+e.Error()+": "+e.Remedy()) }})
		for of, want := range map[*trust.Holder]string{away: "--join FILE; the token: tender token create master -o FILE", agent: "an empty data folder and --join FILE"} {
			got := meet(t, server, dialer(of))
			if !api.Is(got.dialed, api.Denied) || !strings.Contains(got.dialed.Error(), "ours has counted until 2000-01-01T02:00:00Z") || !strings.Contains(got.dialed.Error(), want) {
				t.Errorf("it is told %v", got.dialed)
			}
		}
		blind := func(dial trust.Dial) trust.Dial { // it asks nobody who he is, so that the master sees who it is
			return func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := dial(ctx, address)
				if err != nil {
					return nil, err
				}
				shown := tls.Certificate{Certificate: away.Pass().Chain(), PrivateKey: away.Pass().Key()}
				return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{shown}}), nil
			}
		}
		if got := meet(t, server, blind); got.served == nil {
			t.Error("it is let in")
		}
		want := "m3: its certificate is of a former authority, which has counted until 2000-01-01T02:00:00Z: start it once more with --join FILE; the token: tender token create master -o FILE"
		if len(ended) != 1 || ended[0] != want {
			t.Errorf("the master hears of %q, want %q", ended, want)
		}
	})
}

// TestARenewalBeginsSessionsAnew: a member that was identified by a certificate of the former authority and has renewed
// it is admitted when the former one counts no more, although it could try to resume an earlier session.
func TestARenewalBeginsSessionsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m1, a1 := c.holder(trust.Master, "m1"), c.holder(trust.Agent, "a1")
		server := m1.Server(trust.Door{Tickets: c.key})
		if got := meet(t, server, dialer(a1, trust.Master)); got.dialed != nil {
			t.Fatal(got.dialed)
		}
		fresh, err := trust.NewAuthority(c.key.Cluster())
		if err != nil {
			t.Fatal(err)
		}
		next, err := fresh.After(c.ca, time.Now(), time.Now().Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		later := cluster{t, c.key, next}
		m1.Replace(later.holder(trust.Master, "m1").Pass())
		if got := meet(t, server, dialer(a1, trust.Master)); got.dialed != nil || !got.resumed {
			t.Errorf("before its renewal it does not take up its session: %+v", got)
		}
		a1.Replace(later.holder(trust.Agent, "a1").Pass())
		pause.For(t.Context(), 3*time.Hour)
		if got := meet(t, server, dialer(a1, trust.Master)); got.dialed != nil || got.resumed {
			t.Errorf("after the overlap: %+v", got)
		}
	})
}

func TestASessionIsTakenUpByAnotherMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a1 := c.holder(trust.Agent, "a1")
		first := c.holder(trust.Master, "m1").Server(trust.Door{Tickets: c.key})
		second := c.holder(trust.Master, "m2").Server(trust.Door{Tickets: c.key})
		if got := meet(t, first, dialer(a1, trust.Master)); got.dialed != nil || got.resumed || got.exchange != tls.X25519MLKEM768 {
			t.Fatalf("first: %+v", got)
		}
		got := meet(t, second, dialer(a1, trust.Master))
		if got.dialed != nil || !got.resumed || got.server.Name != "a1" || got.exchange != tls.CurveP256 {
			t.Errorf("the second master did not take up the session: %+v", got)
		}
		third := c.holder(trust.Master, "m3").Server(trust.Door{Tickets: trust.NewKey()})
		if got := meet(t, third, dialer(a1, trust.Master)); got.dialed != nil || got.resumed || got.server.Name != "a1" {
			t.Errorf("a master that can't take up the session did not begin another: %+v", got)
		}
		pause.For(t.Context(), 12*time.Hour)
		if got := meet(t, second, dialer(a1, trust.Master)); got.dialed != nil || got.resumed || got.exchange != tls.X25519MLKEM768 {
			t.Errorf("half a day later the old session is asked for: %+v", got)
		}
		stranger := newCluster(t)
		if got := meet(t, stranger.holder(trust.Master, "m1").Server(trust.Door{Tickets: stranger.key}), dialer(a1, trust.Master)); got.dialed == nil {
			t.Error("a master of another cluster did")
		}
	})
}

func TestAJoinerKnowsItsClusterByTheDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := newCluster(t), newCluster(t)
		join := func(dial trust.Dial) trust.Dial { return trust.JoinDialer(dial, c.ca.Digest()) }
		got := meet(t, c.holder(trust.Master, "m1").Server(trust.Door{Joiners: true}), join)
		if got.dialed != nil || got.server != (trust.Identity{}) || got.client.Name != "m1" {
			t.Errorf("the joiner met %v, the master %v: %v", got.client, got.server, got.dialed)
		}
		for name, server := range map[string]*tls.Config{
			"another cluster's master": other.holder(trust.Master, "m1").Server(trust.Door{Joiners: true}),
			"an agent":                 c.holder(trust.Agent, "a1").Server(trust.Door{Joiners: true}),
			"a forger":                 forge(t, c, other).Server(trust.Door{Joiners: true}),
		} {
			if got := meet(t, server, join); got.dialed == nil {
				t.Errorf("%s was taken for the cluster's master", name)
			}
		}
	})
}

func TestAStrangerIsNobody(t *testing.T) {
	c := newCluster(t)
	server := c.holder(trust.Master, "m1").Server(trust.Door{Strangers: true})
	near, far := pipe(t)
	go func() { _ = tls.Client(near, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()) }()
	conn := tls.Server(far, server)
	if err := conn.HandshakeContext(t.Context()); err != nil || trust.PeerOf(conn) != (trust.Identity{}) {
		t.Errorf("the stranger is %v: %v", trust.PeerOf(conn), err)
	}
	_ = near.Close()
}

func TestWithoutAPassNothingIsShown(t *testing.T) {
	var h *trust.Holder
	want := errors.New("dialed")
	_, err := h.Dialer(func(context.Context, string) (net.Conn, error) { return nil, want }, trust.Master)(t.Context(), "there")
	if !errors.Is(err, want) {
		t.Errorf("got %v, want what the dialer answers", err)
	}
}
