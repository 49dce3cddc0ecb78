package master

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/internal/registrycodec"
	"github.com/tenderhq/tender/master/registry"
)

// TestASnapshotSaysWhomItLetsIn: whoever restores it learns who may do something again and with which tokens somebody may
// join, without those that were revoked before it was taken. (Protocol rule R52.)
func TestASnapshotSaysWhomItLetsIn(t *testing.T) {
	state := registry.New()
	view := rights.Grant{Verb: rights.View}
	for _, change := range []registry.Change{
		registry.Bootstrap{Cluster: "c1"},
		registry.Grant{Principal: "bob", Grant: view}, registry.Grant{Principal: "ann", Grant: view}, registry.Grant{Principal: "eve", Grant: view},
		registry.RevokePrincipal{Principal: "eve", Why: "left", SawGrants: []rights.Grant{view}},
		registry.CreateToken{Token: registry.Token{ID: "t1", Kind: registry.AgentToken, Hash: "h"}},
		registry.CreateToken{Token: registry.Token{ID: "t2", Kind: registry.AgentToken, Hash: "h"}},
		registry.RevokeToken{ID: "t1"},
	} {
		if result := state.Apply(registry.Command{At: time.Unix(1, 0), Change: change}); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	var saved bytes.Buffer
	if err := registrycodec.WriteSnapshot(&saved, state, 1); err != nil {
		t.Fatal(err)
	}
	found, err := InspectSnapshot(&saved)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found.Principals, []string{"ann", "bob"}) || !slices.Equal(found.Tokens, []string{"t2"}) {
		t.Errorf("it lets in %v, by %v", found.Principals, found.Tokens)
	}
}
