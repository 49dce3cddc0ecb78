package trust_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/internal/trust"
)

// TestLivesOfCertificates: each kind has its own default life, unless another one is set. It is renewed at half of it.
func TestLivesOfCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const day = 24 * time.Hour
		for _, test := range []struct {
			lives   trust.Lives
			kind    trust.Kind
			life    time.Duration
			overlap time.Duration
		}{
			{trust.Lives{}, trust.Agent, 30 * day, 2 * time.Hour},
			{trust.Lives{}, trust.Master, day, 2 * time.Hour},
			{trust.Lives{Agents: time.Hour}, trust.Agent, time.Hour, 2 * time.Hour},
			{trust.Lives{Agents: 4 * time.Hour, Others: 2 * time.Hour}, trust.Framework, 2 * time.Hour, 20 * time.Minute},
		} {
			pass, err := c.ca.Living(test.lives).Issue(trust.Identity{Kind: test.kind, Name: "x1"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if pass.Life() != test.life || !pass.Ends().Equal(time.Now().Add(test.life)) || !pass.RenewAt().Equal(time.Now().Add(test.life/2)) {
				t.Errorf("%v of %+v: it lives for %v, ends at %v and is renewed at %v", test.kind, test.lives, pass.Life(), pass.Ends(), pass.RenewAt())
			}
			if got := test.lives.OverlapMin(); got != test.overlap {
				t.Errorf("%+v: two authorities overlap for %v at least, want %v", test.lives, got, test.overlap)
			}
		}
	})
}
