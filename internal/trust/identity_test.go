package trust_test

import (
	"net/url"
	"testing"

	"github.com/tenderhq/tender/internal/trust"
)

func TestAnIdentityIsReadAsItWasWritten(t *testing.T) {
	for _, test := range []struct {
		identity trust.Identity
		text     string
	}{
		{trust.Identity{}, "nobody"},
		{trust.Identity{Cluster: "c1", Kind: trust.Master, Name: "m1"}, "spiffe://c1/master/m1"},
		{trust.Identity{Cluster: "c1", Kind: trust.Agent, Name: "ab12"}, "spiffe://c1/agent/ab12"},
		{trust.Identity{Cluster: "c.1", Kind: trust.Framework, Name: "etl-nightly"}, "spiffe://c.1/framework/etl-nightly"},
		{trust.Identity{Cluster: "c1", Kind: trust.Person, Name: "ann@example"}, "spiffe://c1/person/ann@example"},
		{trust.Identity{Cluster: "c1", Kind: trust.Person, Name: "zoë?#%"}, "spiffe://c1/person/zo%C3%AB%3F%23%25"},
	} {
		if got := test.identity.String(); got != test.text {
			t.Errorf("%#v is written %q, want %q", test.identity, got, test.text)
		}
		if got, err := trust.Parse(test.text); err != nil || got != test.identity {
			t.Errorf("%q is read as %#v, %v; want %#v", test.text, got, err, test.identity)
		}
	}
}

func TestWhatCouldBeReadInTwoWaysIsNoIdentity(t *testing.T) {
	for _, text := range []string{
		"", "m1", "https://c1/master/m1", "spiffe:///master/m1", "spiffe://c1/master", "spiffe://c1/master/",
		"spiffe://c1/king/m1", "spiffe://c1/nobody/m1", "spiffe://c1//m1", "spiffe://c1/master/m1/x", "spiffe://c1/master/m1%2Fx",
		"spiffe://c1/master/..", "spiffe://c1/master/m%31", "spiffe://C1/master/m1", "spiffe://c1:5/master/m1",
		"spiffe://me@c1/master/m1", "spiffe://c1/master/m1?x=1", "spiffe://c1/master/m1#x", "spiffe://c1/master/m1?", "spiffe:c1/master/m1",
		"spiffe://c%31/master/m1",
	} {
		if got, err := trust.Parse(text); err == nil {
			t.Errorf("%q is read as %#v, want an error", text, got)
		}
	}
	if got, err := trust.FromURI(&url.URL{}); err == nil {
		t.Errorf("an empty URI is read as %v, want an error", got)
	}
}

func TestAContextTellsWhoCallsIfATransportSaidSo(t *testing.T) {
	if got := trust.Of(t.Context()); got != (trust.Identity{}) {
		t.Errorf("a bare context is of %v, want nobody", got)
	}
	ann := trust.Identity{Cluster: "c1", Kind: trust.Person, Name: "ann"}
	if got := trust.Of(trust.With(t.Context(), ann)); got != ann {
		t.Errorf("Ann's context is of %v", got)
	}
}
