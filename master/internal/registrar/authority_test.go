package registrar_test

import (
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

func (d *desk) rotate(overlap time.Duration) (*apiv1.AuthorityView, error) {
	d.Helper()
	return d.RotateAuthority(d.Context(), &apiv1.RotateAuthorityRequest{Overlap: durationpb.New(overlap)})
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

// TestAnotherAuthorityFollows: it signs from then on, at every master, and for a master that joins; and the next one has to
// wait until the former one has ended.
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
		if got := names(); len(got) != 2 || got[0] != "a1" || got[1] != "a2" {
			t.Errorf("at first they are %v", got)
		}
		pause.For(t.Context(), 2*time.Hour)
		if got := names(); len(got) != 1 || got[0] != "a1" {
			t.Errorf("two hours later they are %v", got)
		}
	})
}
