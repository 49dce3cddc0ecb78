package registrar_test

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

func (d *desk) rotate(overlap time.Duration) (*apiv1.AuthorityView, error) {
	d.Helper()
	return d.RotateAuthority(d.Context(), &apiv1.RotateAuthorityRequest{Overlap: durationpb.New(overlap)}, rights.All())
}

// passOf is what a joiner makes of an answer.
func (d *desk) passOf(pass *trust.Pass, answer *apiv1.SignResponse) *trust.Pass {
	d.Helper()
	leaf, err := x509.ParseCertificate(answer.GetCertificate())
	if err != nil {
		d.Fatal(err)
	}
	var anchors []*x509.Certificate
	for _, der := range answer.GetRoots() {
		anchor, err := x509.ParseCertificate(der)
		if err != nil {
			d.Fatal(err)
		}
		anchors = append(anchors, anchor)
	}
	signed, err := pass.Signed(leaf, anchors)
	if err != nil {
		d.Fatal(err)
	}
	return signed
}

// TestAnotherAuthorityFollows: the new authority signs from then on, at every master, and for a master that joins. The
// next one must wait until the former one has ended.
func TestAnotherAuthorityFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		before, err := d.GetAuthority(t.Context(), nil)
		if err != nil || before.GetFormerEnds() != nil || before.GetBegan() != nil {
			t.Fatalf("at first: %v, %v", before, err)
		}
		if _, err := d.rotate(time.Hour); !api.Is(err, api.Invalid) {
			t.Errorf("an overlap of an hour: %v", err)
		}
		other := d.with(d.key) // of another master
		after, err := d.rotate(3 * time.Hour)
		if err != nil || after.GetDigest() == before.GetDigest() || after.GetFormerDigest() != before.GetDigest() {
			t.Fatalf("after a rotation: %v, %v", after, err)
		}
		if changed, err := other.Follow(); !changed || err != nil {
			t.Errorf("another master follows: %v, %v", changed, err)
		}
		if own, err := other.Issue("m2", time.Now()); err != nil || own.Authority().String() != after.GetDigest() {
			t.Errorf("another master shows %v, %v", own.Authority(), err)
		}
		token := d.token(&apiv1.CreateTokenRequest{Kind: "master", Uses: 1})
		if token.Digest.String() != after.GetDigest() {
			t.Error("a new token is of the former authority")
		}
		pass := trust.NewPass()
		answer, err := d.join(token, "m3", pass)
		if err != nil {
			t.Fatal(err)
		}
		if signed := d.passOf(pass, answer); signed.Authority().String() != after.GetDigest() || signed.Anchors().Crossed == nil {
			t.Errorf("a master that joins has a certificate of %v", signed.Authority())
		}
		key, err := trust.ParseKey(answer.GetClusterKey())
		if err != nil {
			t.Fatal(err)
		}
		if ca, err := key.Authority(); err != nil || ca.Digest().String() != after.GetDigest() {
			t.Errorf("a master that joins signs by %v, %v", ca.Digest(), err)
		}
		if _, err := d.rotate(3 * time.Hour); !api.Is(err, api.Exists) {
			t.Errorf("another one while two count: %v", err)
		}
		pause.For(t.Context(), 3*time.Hour+time.Second)
		if view, err := d.GetAuthority(t.Context(), nil); err != nil || view.GetFormerDigest() != "" || view.GetDigest() != after.GetDigest() {
			t.Errorf("when the former one has ended: %v, %v", view, err)
		}
		if _, err := d.rotate(3 * time.Hour); err != nil {
			t.Errorf("the next one: %v", err)
		}
	})
}

// TestWhoHasWhichCertificate: the last one that each has shown, until it ends.
func TestWhoHasWhichCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		now := time.Now()
		show := func(name string, lives time.Duration) {
			d.Met(trust.Shown{Identity: trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Agent, Name: name}, Ends: now.Add(lives)})
		}
		show("a2", 2*time.Hour)
		show("a1", time.Hour)
		show("a1", 3*time.Hour)
		names := func() (names []string) {
			view, err := d.GetAuthority(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range view.GetItems() {
				names = append(names, item.GetIdentity()[len(item.GetIdentity())-2:])
			}
			return names
		}
		if got := names(); !slices.Equal(got, []string{"a1", "a2", "m1"}) {
			t.Errorf("at first they are %v", got)
		}
		pause.For(t.Context(), 2*time.Hour)
		if got := names(); !slices.Equal(got, []string{"a1", "m1"}) {
			t.Errorf("two hours later they are %v", got)
		}
	})
}

// TestWhoHasShownNothing is named nevertheless: the masters of the quorum, and the agents except those that are gone.
func TestWhoHasShownNothing(t *testing.T) {
	d := newDesk(t)
	d.state.Agents = map[api.AgentID]registry.Agent{"agent-1": {Nonce: "away"}, "agent-2": {Nonce: "here"}, "agent-3": {Nonce: "gone", Gone: time.Now()}}
	d.Met(trust.Shown{Identity: trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Agent, Name: "here"}, Ends: time.Now().Add(time.Hour)})
	view, err := d.GetAuthority(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, item := range view.GetItems() {
		told = append(told, fmt.Sprint(strings.TrimPrefix(item.GetIdentity(), "spiffe://"+d.key.Cluster()), " ", item.GetEnds() != nil))
	}
	if want := []string{"/agent/away false", "/agent/here true", "/master/m1 false"}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}

// TestWhatWasOnlySignedIsNotShown: the answer with it may have been lost.
func TestWhatWasOnlySignedIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		answer, err := d.join(d.token(&apiv1.CreateTokenRequest{Kind: "agent", Uses: 1}), "n1", trust.NewPass())
		if err != nil {
			t.Fatal(err)
		}
		latest := func() *apiv1.CertificateView {
			view, err := d.GetAuthority(t.Context(), nil)
			if err != nil || len(view.GetItems()) != 2 { // it, and the master
				t.Fatalf("the authority is shown as %v, %v", view, err)
			}
			return view.GetItems()[0]
		}
		leaf, err := x509.ParseCertificate(answer.GetCertificate())
		if err != nil {
			t.Fatal(err)
		}
		if got := latest(); got.GetShown() != nil || !got.GetEnds().AsTime().Equal(leaf.NotAfter) {
			t.Errorf("before anybody came with it, it is %v", got)
		}
		pause.For(t.Context(), time.Minute)
		d.Met(trust.Shown{Identity: trust.Identity{Cluster: d.key.Cluster(), Kind: trust.Agent, Name: "n1"}, Ends: leaf.NotAfter})
		if got := latest(); !got.GetShown().AsTime().Equal(time.Now()) {
			t.Errorf("once somebody came with it, it is %v", got)
		}
	})
}

// TestAnAgentComesBackAsWhoItWas when its certificate has ended, with an agent's token and the key that it had, as long
// as the agent is known and the authority that has signed its certificate is accepted.
func TestAnAgentComesBackAsWhoItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		agents := d.token(&apiv1.CreateTokenRequest{Kind: "agent"})
		was := trust.NewPass()
		answer, err := d.join(agents, "n1", was)
		if err != nil {
			t.Fatal(err)
		}
		was = d.passOf(was, answer)
		pause.For(t.Context(), 31*24*time.Hour)
		_, err = d.back(agents, was, was)
		d.denied("an agent that no master has admitted", err)
		d.state.Apply(registry.Command{At: time.Now(), Change: registry.AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"}})
		once := d.token(&apiv1.CreateTokenRequest{Kind: "agent", Uses: 1})
		for range 2 { // the answer to the first was lost
			if answer, err = d.back(once, was, was); err != nil {
				t.Fatal(err)
			}
		}
		if is := d.passOf(was, answer); is.Identity() != was.Identity() || !is.Ends().After(time.Now()) {
			t.Errorf("it was %v, and is %v until %v", was.Identity(), is.Identity(), is.Ends())
		}
		_, err = d.back(agents, was, trust.NewPass())
		d.denied("who has its certificate and not its key", err)
		if _, err := d.back(d.token(&apiv1.CreateTokenRequest{Kind: "framework", Principal: "etl"}), was, was); !api.Is(err, api.Invalid) {
			t.Errorf("by the token of a framework: %v", err)
		}
		if _, err := d.rotate(3 * time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := d.back(agents, was, was); err != nil {
			t.Errorf("while the former authority counts: %v", err)
		}
		pause.For(t.Context(), 4*time.Hour)
		_, err = d.back(agents, was, was)
		d.denied("when the authority counts no more that has signed it", err)
		other := trust.NewKey()
		authority, err := other.Authority()
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := authority.Issue(was.Identity(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.back(agents, stranger, stranger)
		d.denied("an agent of another cluster", err)
	})
}

// back asks with the token for another certificate for the key of a pass, in the name of the former certificate.
func (d *desk) back(token trust.Token, had, pass *trust.Pass) (*apiv1.SignResponse, error) {
	d.Helper()
	request, err := pass.Request()
	if err != nil {
		d.Fatal(err)
	}
	return d.Sign(d.Context(), &apiv1.SignRequest{Request: request, TokenId: token.ID, Secret: token.Secret, Ended: had.Certificate().Raw})
}

// TestAnAgentThatIsGoneDoesNotComeBack by its certificate, whatever token it has.
func TestAnAgentThatIsGoneDoesNotComeBack(t *testing.T) {
	d := newDesk(t)
	agents := d.token(&apiv1.CreateTokenRequest{Kind: "agent"})
	was := trust.NewPass()
	answer, err := d.join(agents, "n1", was)
	if err != nil {
		t.Fatal(err)
	}
	was = d.passOf(was, answer)
	admitted := d.state.Apply(registry.Command{At: time.Now(), Change: registry.AdmitAgent{Agent: api.Agent{Hostname: "h1"}, Nonce: "n1"}})
	if _, err := d.back(agents, was, was); err != nil {
		t.Error(err)
	}
	d.state.Apply(registry.Command{At: time.Now(), Change: registry.MarkAgent{ID: admitted.Agent, Saw: registry.Whatever, Set: api.MarkGone}})
	_, err = d.back(agents, was, was)
	d.denied("marked gone", err)
	d.state.Apply(registry.Command{At: time.Now(), Change: registry.RemoveAgent{ID: admitted.Agent, Nonce: d.state.Agents[admitted.Agent].Nonce, Saw: registry.Whatever}})
	_, err = d.back(agents, was, was)
	d.denied("removed", err)
}
