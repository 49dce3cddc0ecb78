package registrar_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/internal/registrar"
	"github.com/tenderhq/tender/master/registry"
)

// desk is a registrar over a registry of its own.
type desk struct {
	*testing.T
	*registrar.Registrar
	state *registry.State
	key   trust.Key
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, state: registry.New(), key: trust.NewKey()}
	d.Registrar = d.with(d.key)
	return d
}

func (d *desk) with(key trust.Key) *registrar.Registrar {
	d.Helper()
	r, err := registrar.New(registrar.Config{
		Key:  key,
		Read: func(read func(*registry.State)) { read(d.state) },
		Commit: func(_ context.Context, _ string, change registry.Change) error {
			if result := d.state.Apply(registry.Command{At: time.Now(), Change: change}); result.Err != nil {
				return result.Err
			}
			return nil
		},
		Peers:  func() map[api.MasterID]string { return map[api.MasterID]string{"m1": "m1:5070"} },
		Signed: func(trust.Identity, string, time.Time) {},
	})
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// token makes one.
func (d *desk) token(request *apiv1.CreateTokenRequest) trust.Token {
	d.Helper()
	answer, err := d.CreateToken(d.Context(), request, rights.All(), "person ann")
	if err != nil {
		d.Fatal(err)
	}
	token, err := trust.ParseToken(answer.GetToken())
	if err != nil {
		d.Fatal(err)
	}
	return token
}

// join asks for a certificate by the token, for a key.
func (d *desk) join(token trust.Token, name string, pass *trust.Pass) (*apiv1.SignResponse, error) {
	d.Helper()
	request, err := pass.Request()
	if err != nil {
		d.Fatal(err)
	}
	return d.Sign(d.Context(), &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret, Name: name})
}

// renew asks for another certificate, as a peer that already has one.
func (d *desk) renew(who trust.Identity) error {
	d.Helper()
	request, err := trust.NewPass().Request()
	if err != nil {
		d.Fatal(err)
	}
	_, err = d.Sign(trust.With(d.Context(), who), &apiv1.SignRequest{Request: request})
	return err
}

func (d *desk) denied(what string, err error) {
	d.Helper()
	if !api.Is(err, api.Denied) {
		d.Errorf("%s: %v, want it denied", what, err)
	}
}

func TestATokenOfLimitedUsesLetsInSoMany(t *testing.T) {
	d := newDesk(t)
	token := d.token(&apiv1.CreateTokenRequest{Kind: "agent", Uses: 1})
	pass := trust.NewPass()
	for range 2 { // the answer to the first was lost
		if answer, err := d.join(token, "n1", pass); err != nil || len(answer.GetClusterKey()) > 0 || len(answer.GetPeers()) > 0 {
			t.Fatalf("the agent was answered %v, %v", answer, err)
		}
	}
	_, err := d.join(token, "n2", trust.NewPass())
	d.denied("a second agent", err)
	wrong := token
	wrong.Secret += "x"
	_, err = d.join(wrong, "n1", pass)
	d.denied("a wrong secret", err)
	_, err = d.join(trust.Token{ID: "none", Secret: token.Secret}, "n1", pass)
	d.denied("a token that nobody made", err)
	d.denied("neither a token nor a certificate", d.renew(trust.Identity{}))
}

// TestARequestThatIsNotSignedUsesNoToken: a token of one use still lets somebody in after a request that can't be
// signed.
func TestARequestThatIsNotSignedUsesNoToken(t *testing.T) {
	d := newDesk(t)
	token := d.token(&apiv1.CreateTokenRequest{Kind: "agent", Uses: 1})
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := trust.NewPass().Request()
	if err != nil {
		t.Fatal(err)
	}
	forged[len(forged)-1] ^= 1
	for what, request := range map[string][]byte{"for a key of another kind": other, "that its key has not signed": forged, "that is none": []byte("none")} {
		if _, err := d.Sign(t.Context(), &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret, Name: "n1"}); !api.Is(err, api.Invalid) {
			t.Errorf("a request %s: %v", what, err)
		}
	}
	if _, err := d.join(token, "n1", trust.NewPass()); err != nil {
		t.Errorf("the token lets nobody in behind them: %v", err)
	}
}

// TestATokenOfAnotherKind is refused with what would be right, before a use of it is counted or the cluster's key is
// told, so that it still lets in the peer that it is for. A peer that names no kinds, as older versions do, becomes
// what the token says.
func TestATokenOfAnotherKind(t *testing.T) {
	d := newDesk(t)
	ask := func(token trust.Token, name string, kinds ...string) (*apiv1.SignResponse, error) {
		t.Helper()
		request, err := trust.NewPass().Request()
		if err != nil {
			t.Fatal(err)
		}
		return d.Sign(t.Context(), &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret, Name: name, Kinds: kinds})
	}
	for _, test := range []struct {
		kind, principal, name string // kind and principal of the token, name of the peer that shows it
		as                    []string
		says                  string
	}{
		{"master", "", "n1", []string{"agent"}, "this is the token of a master; an agent joins by one of: tender token create agent"},
		{"agent", "", "", []string{"person", "framework"}, "this is the token of an agent; a person joins by one of: tender token create operator"},
		{"agent", "", "", []string{"framework"}, "this is the token of an agent; a framework joins by one of: tender token create framework"},
		{"operator", "ann", "m2", []string{"master"}, "this is the token of a person; a master joins by one of: tender token create master"},
	} {
		token := d.token(&apiv1.CreateTokenRequest{Kind: test.kind, Principal: test.principal, Uses: 1})
		if _, err := ask(token, test.name, test.as...); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v by the token of %s: %v", test.as, test.kind, err)
		}
		if _, err := ask(token, "n2"); err != nil {
			t.Errorf("whom the token of %s is for: %v", test.kind, err)
		}
	}
}

func TestATokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		short := d.token(&apiv1.CreateTokenRequest{Kind: "agent", Ttl: durationpb.New(time.Hour)})
		long := d.token(&apiv1.CreateTokenRequest{Kind: "operator", Principal: "ann"})
		pause.For(t.Context(), time.Hour)
		_, err := d.join(short, "n1", trust.NewPass())
		d.denied("an hour later", err)
		if _, err := d.join(long, "", trust.NewPass()); err != nil {
			t.Errorf("a token that does not end: %v", err)
		}
		if _, err := d.RevokeToken(t.Context(), &apiv1.RevokeTokenRequest{Id: long.ID}); err != nil {
			t.Error(err)
		}
		_, err = d.join(long, "", trust.NewPass())
		d.denied("when it was revoked", err)
		list, err := d.ListTokens(t.Context(), &apiv1.ListTokensRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.GetItems() {
			if want := map[string]string{short.ID: "expired", long.ID: "revoked"}[item.GetId()]; item.GetState() != want {
				t.Errorf("token %s is shown as %s, want %s", item.GetId(), item.GetState(), want)
			}
		}
		if strings.Contains(list.String(), long.Secret) {
			t.Error("the list holds a secret")
		}
	})
}

func TestAMasterIsGivenTheKey(t *testing.T) {
	d := newDesk(t)
	answer, err := d.join(d.token(&apiv1.CreateTokenRequest{Kind: "master"}), "m2", trust.NewPass())
	if err != nil {
		t.Fatal(err)
	}
	if key, err := trust.ParseKey(answer.GetClusterKey()); err != nil || key != d.key || answer.GetPeers()[0].GetRaftAddress() != "m1:5070" {
		t.Errorf("it was given %v, %v and the masters %v", key, err, answer.GetPeers())
	}
}

func TestATokenGrantsWhatItIsFor(t *testing.T) {
	d := newDesk(t)
	d.token(&apiv1.CreateTokenRequest{Kind: "framework", Principal: "etl", Roles: []string{"eng", "ops"}})
	d.token(&apiv1.CreateTokenRequest{Kind: "operator", Principal: "ann"})
	if got := d.state.Principals["etl"].Grants; len(got) != 2 || got[0].String() != "run --role eng" || got[1].String() != "run --role ops" {
		t.Errorf("the framework was granted %v", got)
	}
	if got := d.state.Principals["ann"].Grants; len(got) != 1 || got[0].String() != "admin" {
		t.Errorf("the operator was granted %v", got)
	}
	d.token(&apiv1.CreateTokenRequest{Kind: "operator", Principal: "etl"})
	if got := d.state.Principals["etl"].Grants; len(got) != 2 {
		t.Errorf("who may do something already may do %v by another token", got)
	}
	may := func(verbs ...string) (grants []*apiv1.PrincipalGrant) {
		for _, verb := range verbs {
			grants = append(grants, &apiv1.PrincipalGrant{Verb: verb, Role: "eng"})
		}
		return grants
	}
	for range 2 { // the second time it has exactly that already
		d.token(&apiv1.CreateTokenRequest{Kind: "operator", Principal: "carl", May: may("operate", "view")})
		if got := d.state.Principals["carl"].Grants; len(got) != 2 || got[0].String() != "operate --role eng" || got[1].String() != "view --role eng" {
			t.Errorf("carl was granted %v", got)
		}
	}
	for _, principal := range []string{"carl", "ann", "etl"} {
		if _, err := d.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "operator", Principal: principal, May: may("view")}, rights.All(), "person ann"); !api.Is(err, api.Exists) {
			t.Errorf("%s may do more than view: %v", principal, err)
		}
	}
	before := len(d.state.Tokens)
	for _, request := range []*apiv1.CreateTokenRequest{
		{}, {Kind: "king"}, {Kind: "framework"}, {Kind: "agent", Principal: "ann"}, {Kind: "agent", Roles: []string{"eng"}},
		{Kind: "agent", Uses: registry.TokenUsesMax + 1}, {Kind: "agent", Ttl: durationpb.New(-time.Second)},
		{Kind: "agent", May: may("view")}, {Kind: "operator", Principal: "eve", May: may("rule")},
		{Kind: "framework", Principal: "eve", Roles: []string{"eng"}, May: may("view")},
	} {
		if _, err := d.CreateToken(t.Context(), request, rights.All(), "person ann"); !api.Is(err, api.Invalid) {
			t.Errorf("%v: %v, want it invalid", request, err)
		}
	}
	if _, err := d.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "framework", Principal: "bad", Roles: []string{"/"}}, rights.All(), "person ann"); err == nil {
		t.Error("an impossible role was granted")
	}
	for id, token := range d.state.Tokens {
		if token.Principal == "bad" && token.Revoked.IsZero() {
			t.Errorf("token %s lets somebody in who was granted nothing", id)
		}
	}
	if len(d.state.Tokens) != before+1 {
		t.Errorf("%d tokens were made of what is impossible", len(d.state.Tokens)-before-1)
	}
}

func TestWhoCountsNoMoreGetsNoCertificate(t *testing.T) {
	d := newDesk(t)
	token := d.token(&apiv1.CreateTokenRequest{Kind: "framework", Principal: "etl", Roles: []string{"eng"}})
	etl := trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Framework, Name: "etl"}
	agent := trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Agent, Name: "n1"}
	admitted := d.state.Apply(registry.Command{At: time.Now(), Change: registry.AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"}})
	for _, who := range []trust.Identity{etl, agent} {
		if err := d.renew(who); err != nil {
			t.Errorf("%v is not given another certificate: %v", who, err)
		}
	}
	_, err := d.join(d.token(&apiv1.CreateTokenRequest{Kind: "agent"}), "n1", trust.NewPass())
	if !api.Is(err, api.Exists) {
		t.Errorf("a joiner takes the name of an agent that is known: %v", err)
	}
	d.state.Apply(registry.Command{At: time.Now(), Change: registry.RevokePrincipal{Principal: "etl", Why: "stolen", SawGrants: d.state.Principals["etl"].Grants}})
	d.state.Apply(registry.Command{At: time.Now(), Change: registry.MarkAgent{ID: admitted.Agent, Saw: registry.Whatever, Set: api.MarkGone}})
	d.denied("a revoked principal", d.renew(etl))
	d.denied("an agent that is gone", d.renew(agent))
	d.state.Apply(registry.Command{At: time.Now(), Change: registry.RemoveAgent{ID: admitted.Agent, Nonce: d.state.Agents[admitted.Agent].Nonce, Saw: registry.Whatever}})
	d.denied("an agent that is forgotten", d.renew(agent))
	for range 2 {
		_, err = d.join(token, "", trust.NewPass())
		d.denied("a revoked principal by its token", err)
		if revoked := protocol.Revoked(""); !errors.As(err, &revoked) {
			t.Errorf("it is not told that it was revoked: %v", err)
		}
		d.state.Apply(registry.Command{At: time.Now(), Change: registry.RevokeToken{ID: token.ID}}) // as the leader does then
	}
}

func TestTheFirstTokenIsMadeOnce(t *testing.T) {
	d := newDesk(t)
	first, err := d.key.FirstToken()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.join(first, "", trust.NewPass()); !api.Is(err, api.Unavailable) {
		t.Errorf("before it is made: %v", err)
	}
	for range 2 {
		if err := d.EnsureFirst(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.join(first, "", trust.NewPass()); err != nil {
		t.Error(err)
	}
	if _, err := d.RevokeToken(t.Context(), &apiv1.RevokeTokenRequest{Id: first.ID}); err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = d.join(first, "", trust.NewPass())
	d.denied("a first token that was revoked", err)
}

func TestAClusterWithoutAKeySignsNothing(t *testing.T) {
	d := newDesk(t)
	d.Registrar = d.with(trust.Key{})
	for what, err := range map[string]error{
		"sign": func() error { _, err := d.join(trust.Token{ID: "x"}, "n1", trust.NewPass()); return err }(),
		"create": func() error {
			_, err := d.CreateToken(t.Context(), &apiv1.CreateTokenRequest{Kind: "agent"}, rights.All(), "person ann")
			return err
		}(),
	} {
		if !api.Is(err, api.Unsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHostsAreSignedForWhoServesThere: the certificate names the hosts and the caller, and no hosts that are none.
func TestHostsAreSignedForWhoServesThere(t *testing.T) {
	d := newDesk(t)
	request, err := trust.NewPass().Request()
	if err != nil {
		t.Fatal(err)
	}
	eve := trust.With(t.Context(), trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Person, Name: "eve"})
	answer, err := d.SignHosts(eve, &apiv1.SignHostsRequest{Request: request, Hosts: []string{"gateway.example", "10.0.0.7"}})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(answer.GetCertificate())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"gateway.example", "10.0.0.7"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if who, err := trust.FromURI(leaf.URIs[0]); err != nil || who.Kind != trust.Person || who.Name != "eve" {
		t.Errorf("it is of %v, %v", who, err)
	}
	for _, hosts := range [][]string{nil, {""}, {"*.example"}, {"a b"}, {"0.0.0.0"}, make([]string, 17)} {
		if _, err := d.SignHosts(eve, &apiv1.SignHostsRequest{Request: request, Hosts: hosts}); !api.Is(err, api.Invalid) {
			t.Errorf("%q: %v", hosts, err)
		}
	}
	if _, err := d.SignHosts(t.Context(), &apiv1.SignHostsRequest{Request: request, Hosts: []string{"h"}}); !api.Is(err, api.Denied) {
		t.Errorf("for nobody: %v", err)
	}
}
