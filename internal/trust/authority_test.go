package trust_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

// overlap is how long the former authority counts in these tests.
const overlap = 48 * time.Hour

// rotate returns the cluster with a new authority that follows.
func (c cluster) rotate() cluster {
	c.t.Helper()
	fresh, err := trust.NewAuthority(c.key.Cluster())
	if err == nil {
		c.ca, err = fresh.After(c.ca, time.Now(), time.Now().Add(overlap))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return c
}

func TestBothAuthoritiesCountUntilTheFormerOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		oldMaster, oldAgent := c.holder(trust.Master, "m1"), c.holder(trust.Agent, "a1")
		next := c.rotate()
		newMaster, newAgent := next.holder(trust.Master, "m1"), next.holder(trust.Agent, "a2")
		all := func(what string, mixed bool) {
			t.Helper()
			for name, pair := range map[string]struct {
				server, client *trust.Holder
				counts         bool
			}{
				"the old ones":                    {oldMaster, oldAgent, true},
				"the new ones":                    {newMaster, newAgent, true},
				"a new master and an old agent":   {newMaster, oldAgent, mixed},
				"an old master and a new agent":   {oldMaster, newAgent, mixed},
				"an old master, a new one's door": {newMaster, oldMaster, mixed},
			} {
				got := meet(t, pair.server.Server(trust.Door{}), dialer(pair.client, trust.Master))
				if (got.served == nil && got.dialed == nil) != pair.counts {
					t.Errorf("%s: %s met: %v, %v; want it to be %v", what, name, got.served, got.dialed, pair.counts)
				}
			}
		}
		all("during the rotation", true)
		shown, err := look(t, newMaster, oldAgent)
		if err != nil || shown.Authority != next.ca.Digest() || shown.Identity.Name != "m1" {
			t.Errorf("an old agent sees %v, %v", shown, err)
		}
		pause.For(t.Context(), overlap+time.Second)
		oldMaster, newMaster = c.holder(trust.Master, "m1"), next.holder(trust.Master, "m1")
		all("after it", false)
	})
}

// errLooked ends a dial that only looks.
var errLooked = errors.New("looked")

// look returns what the holder sees of a master.
func look(t *testing.T, master, holder *trust.Holder) (trust.Shown, error) {
	t.Helper()
	var shown trust.Shown
	got := meet(t, master.Server(trust.Door{}), func(dial trust.Dial) trust.Dial {
		return func(ctx context.Context, address string) (net.Conn, error) {
			var err error
			shown, err = holder.Look(ctx, dial, address)
			if err == nil {
				err = errLooked
			}
			return nil, err
		}
	})
	if errors.Is(got.dialed, errLooked) {
		return shown, nil
	}
	return shown, got.dialed
}

// The certificates that were shown when a session began are not verified again when it is resumed. It is only checked
// whether they still count: resumption ends with the authority that has signed them.
func TestASessionIsTakenUpUntilItsAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m1, a1 := c.holder(trust.Master, "m1"), c.holder(trust.Agent, "a1")
		var seen trust.Shown
		server := m1.Server(trust.Door{Tickets: c.key, Seen: func(s trust.Shown) { seen = s }})
		if got := meet(t, server, dialer(a1, trust.Master)); got.dialed != nil {
			t.Fatal(got.dialed)
		}
		next := cluster{t, c.key, must(must(trust.NewAuthority(c.key.Cluster())).After(c.ca, time.Now(), time.Now().Add(2*time.Hour)))}
		m1.Replace(next.holder(trust.Master, "m1").Pass())
		got := meet(t, server, dialer(a1, trust.Master))
		if got.dialed != nil || !got.resumed || got.server.Name != "a1" || seen.Authority != c.ca.Digest() || seen.Identity.Name != "a1" {
			t.Errorf("during the overlap: %+v, seen as %+v", got, seen)
		}
		pause.For(t.Context(), 3*time.Hour)
		if got := meet(t, server, dialer(a1, trust.Master)); got.served == nil || got.dialed == nil {
			t.Errorf("after the overlap: %+v", got)
		}
	})
}

// A session can't be resumed after its certificate has expired either.
func TestASessionIsTakenUpUntilItsCertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.ca = c.ca.Living(trust.Lives{Agents: time.Hour})
		m1, a1 := c.holder(trust.Master, "m1"), c.holder(trust.Agent, "a1")
		server := m1.Server(trust.Door{Tickets: c.key})
		for _, resumed := range []bool{false, true} {
			if got := meet(t, server, dialer(a1, trust.Master)); got.dialed != nil || got.resumed != resumed {
				t.Errorf("%+v", got)
			}
		}
		pause.For(t.Context(), time.Hour+time.Second)
		if got := meet(t, server, dialer(a1, trust.Master)); got.served == nil || got.dialed == nil {
			t.Errorf("after its end: %+v", got)
		}
	})
}

// Somebody with the key of an authority that is to end can't sign in the name of the one that follows: a resumed
// session is checked by that name alone.
func TestNobodySignsInTheNameOfAnotherAuthority(t *testing.T) {
	c := newCluster(t)
	certificate, key := own(t, func(*x509.Certificate) {})
	c.ca = must(trust.OwnAuthority(c.key.Cluster(), certificate, key, time.Now()))
	block, _ := pem.Decode(key)
	stolen := must(x509.ParseECPrivateKey(block.Bytes))
	next := c.rotate()
	server := next.holder(trust.Master, "m1").Server(trust.Door{Tickets: c.key})
	for name, id := range map[string][]byte{"its own": c.ca.Anchors().Root.SubjectKeyId, "the next one's": next.ca.Anchors().Root.SubjectKeyId} {
		signer := *c.ca.Anchors().Root
		signer.SubjectKeyId = id
		mine := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		der := must(x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			URIs: []*url.URL{trust.Identity{Cluster: c.key.Cluster(), Kind: trust.Agent, Name: "a1"}.URI()},
		}, &signer, mine.Public(), stolen))
		got := meet(t, server, func(dial trust.Dial) trust.Dial {
			return func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := dial(ctx, address)
				if err != nil {
					return nil, err
				}
				return tls.Client(conn, &tls.Config{
					InsecureSkipVerify: true, ServerName: "member.tender", Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: mine}},
				}), nil
			}
		})
		if refused := got.served != nil; refused != (name == "the next one's") {
			t.Errorf("signed in %s name: %v", name, got.served)
		}
	}
}

func TestATokenOfTheFormerAuthorityLetsInUntilThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		old := c.ca.Digest()
		next := c.rotate()
		join := func(digest trust.Digest) error {
			master := next.holder(trust.Master, "m1")
			return meet(t, master.Server(trust.Door{Joiners: true}), func(dial trust.Dial) trust.Dial { return trust.JoinDialer(dial, digest) }).dialed
		}
		for name, digest := range map[string]trust.Digest{"the old": old, "the new": next.ca.Digest()} {
			if err := join(digest); err != nil {
				t.Errorf("by a token of %s authority: %v", name, err)
			}
		}
		pause.For(t.Context(), overlap+time.Second)
		if err := join(old); !api.Is(err, api.Denied) {
			t.Errorf("by a token of an authority that has ended: %v", err)
		}
		if err := join(next.ca.Digest()); err != nil {
			t.Errorf("by a token of the present one: %v", err)
		}
	})
}

func TestAnAuthorityIsKeptSealedOrWithTheKey(t *testing.T) {
	next := newCluster(t).rotate()
	sealed := must(next.key.SealAuthority(next.ca))
	unsealed := must(next.key.UnsealAuthority(sealed))
	read := must(must(trust.ParseKey(must(next.key.WithAuthority(next.ca)).Marshal())).Authority())
	for name, got := range map[string]*trust.Authority{"sealed": unsealed, "with the key": read} {
		if got.Digest() != next.ca.Digest() || !got.Anchors().Former.Equal(next.ca.Anchors().Former) || !got.Anchors().Crossed.Equal(next.ca.Anchors().Crossed) {
			t.Errorf("%s: it is read as another one", name)
		}
		if _, err := got.Issue(trust.Identity{Kind: trust.Agent, Name: "a1"}, time.Now()); err != nil {
			t.Errorf("%s: it signs nothing: %v", name, err)
		}
	}
	if _, err := newCluster(t).key.UnsealAuthority(sealed); !api.Is(err, api.Invalid) {
		t.Errorf("the key of another cluster opens it: %v", err)
	}
	if strings.Contains(string(sealed), "PRIVATE KEY") {
		t.Error("it is not sealed")
	}
}

// own returns an authority as an organisation has one, in PEM.
func own(t *testing.T, change func(*x509.Certificate)) (certificate, key []byte) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	root := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Example Ltd"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	change(root)
	der := must(x509.CreateCertificate(rand.Reader, root, root, private.Public(), private))
	text := must(x509.MarshalECPrivateKey(private))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func TestAnAuthorityOfOnesOwnOrganisation(t *testing.T) {
	c := newCluster(t)
	certificate, key := own(t, func(*x509.Certificate) {})
	c.ca = must(trust.OwnAuthority(c.key.Cluster(), certificate, key, time.Now()))
	c.key = must(c.key.WithAuthority(c.ca))
	if first := must(c.key.FirstToken()); first.Digest != c.ca.Digest() {
		t.Error("the first token is not of this authority")
	}
	if got := meet(t, c.holder(trust.Master, "m1").Server(trust.Door{}), dialer(c.holder(trust.Agent, "a1"), trust.Master)); got.served != nil || got.dialed != nil {
		t.Errorf("they did not meet: %v, %v", got.served, got.dialed)
	}
	joining := func(dial trust.Dial) trust.Dial { return trust.JoinDialer(dial, c.ca.Digest()) }
	if got := meet(t, c.holder(trust.Master, "m1").Server(trust.Door{Joiners: true}), joining); got.dialed != nil {
		t.Errorf("nobody joins by its digest: %v", got.dialed)
	}
	next := c.rotate() // to one that the cluster makes itself
	if got := meet(t, next.holder(trust.Master, "m1").Server(trust.Door{}), dialer(c.holder(trust.Agent, "a1"), trust.Master)); got.served != nil || got.dialed != nil {
		t.Errorf("after a rotation they did not meet: %v, %v", got.served, got.dialed)
	}
	for name, change := range map[string]func(*x509.Certificate){
		"no authority":       func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false },
		"one that ends soon": func(c *x509.Certificate) { c.NotAfter = time.Now().Add(24 * time.Hour) },
		"one that signs for hosts alone": func(c *x509.Certificate) {
			c.PermittedURIDomains, c.PermittedDNSDomainsCritical = []string{"example.com"}, true
		},
	} {
		certificate, key := own(t, change)
		if _, err := trust.OwnAuthority(c.key.Cluster(), certificate, key, time.Now()); !api.Is(err, api.Invalid) {
			t.Errorf("%s was taken: %v", name, err)
		}
	}
	_, another := own(t, func(*x509.Certificate) {})
	if _, err := trust.OwnAuthority(c.key.Cluster(), certificate, another, time.Now()); err == nil || !strings.Contains(err.Error(), "not that of its certificate") {
		t.Errorf("a certificate and the key of another one: %v", err)
	}
}

// TestTheFirstTokenKnowsTheAuthorityThatFollows: who has the first master's folder can log in with it after a rotation.
func TestTheFirstTokenKnowsTheAuthorityThatFollows(t *testing.T) {
	dir, key := t.TempDir(), trust.NewKey()
	first, err := key.FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, trust.FirstTokenFile)
	fresh, err := trust.NewAuthority(key.Cluster())
	if err != nil {
		t.Fatal(err)
	}
	next, err := key.WithAuthority(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.RewriteKey(dir, next); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.ReadSecret(name); err == nil {
		t.Error("a folder that had no token has one")
	}
	if err := errors.Join(trust.WriteSecret(name, []byte(first.String()+"\n")), trust.RewriteKey(dir, next)); err != nil {
		t.Fatal(err)
	}
	text, err := trust.ReadSecret(name)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := trust.ParseToken(string(text)); err != nil || token.Digest != fresh.Digest() || token.ID != first.ID || token.Secret != first.Secret {
		t.Errorf("it is %v, %v", token.ID, err)
	}
}
