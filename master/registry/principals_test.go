package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

func TestPrincipalsAreGrantedAndRevoked(t *testing.T) {
	s := New()
	run := rights.Grant{Verb: rights.Run, Role: "eng"}
	done(t, s, Grant{"etl", run})
	clone := s.Clone()
	done(t, s, Grant{"etl", run}) // a second copy changes nothing
	done(t, s, Grant{"etl", rights.Grant{Verb: rights.View}})
	if got := len(s.Principals["etl"].Grants); got != 2 {
		t.Errorf("it has %d grants, want 2", got)
	}
	refused(t, s, api.Invalid, Grant{"etl", rights.Grant{Verb: "fly"}})
	refused(t, s, api.Invalid, Grant{"a/b", run})
	refused(t, s, api.NotFound, TakeGrant{"etl", rights.Grant{Verb: rights.Run}})
	refused(t, s, api.NotFound, TakeGrant{"eve", run})
	done(t, s, TakeGrant{"etl", run})
	refused(t, s, api.NotFound, RevokePrincipal{"eve", "", nil})
	refused(t, s, api.Stale, RevokePrincipal{"etl", "it leaked", nil})
	done(t, s, RevokePrincipal{"etl", "it leaked", []rights.Grant{{Verb: rights.View}}})
	refused(t, s, api.Removed, RevokePrincipal{"etl", "", nil})
	refused(t, s, api.Removed, Grant{"etl", run}) // its certificates may still be about
	if p := s.Principals["etl"]; len(p.Grants) != 0 || p.Why != "it leaked" || !p.Revoked.Equal(epoch) {
		t.Errorf("a revoked principal is %+v", p)
	}
	if p := clone.Principals["etl"]; len(p.Grants) != 1 || !p.Revoked.IsZero() {
		t.Errorf("a clone changed with it: %+v", p)
	}
	done(t, s, Expire{Before: epoch})
	if len(s.Principals) != 1 {
		t.Error("one that was revoked at that moment is forgotten")
	}
	done(t, s, Expire{Before: epoch.Add(time.Second)})
	if len(s.Principals) != 0 {
		t.Errorf("one that was revoked before is remembered: %+v", s.Principals)
	}
}

func TestPrincipalsHaveBounds(t *testing.T) {
	s := New()
	for i := range GrantsMax {
		done(t, s, Grant{"etl", rights.Grant{Verb: rights.Run, Role: api.Role(fmt.Sprint("r", i))}})
	}
	refused(t, s, api.Limit, Grant{"etl", rights.Grant{Verb: rights.View}})
	full := make(map[string]Principal, PrincipalsMax)
	for i := range PrincipalsMax {
		full[fmt.Sprint("p", i)] = Principal{}
	}
	s.Principals = full
	refused(t, s, api.Limit, Grant{"one-more", rights.Grant{Verb: rights.View}})
	done(t, s, Grant{"p1", rights.Grant{Verb: rights.View}})
}

// TestAFrameworkIsItsPrincipals (R6): no other principal takes it over. One from before identities belongs to the first
// that comes. A cluster that no longer identifies anybody continues with all of them.
func TestAFrameworkIsItsPrincipals(t *testing.T) {
	subscribe := func(principal, instance string) Subscribe {
		return Subscribe{Framework: api.Framework{ID: "framework-1", Name: "f", Principal: principal, Roles: []api.Role{"r"}}, Instance: api.Nonce(instance)}
	}
	first := subscribe("", "i1")
	first.Framework.ID = ""
	s := New()
	done(t, s, first)
	done(t, s, subscribe("etl", "i2"))
	refused(t, s, api.Denied, subscribe("eve", "i3"))
	done(t, s, subscribe("etl", "i4"))
	done(t, s, subscribe("", "i5"))
	if got := s.Frameworks["framework-1"].Framework.Principal; got != "etl" {
		t.Errorf("it belongs to %q, want etl", got)
	}
}

// TestReceiptsBeginAndEnd: once by each key, and they end where a leader has none.
func TestReceiptsBeginAndEnd(t *testing.T) {
	s := New()
	mark, other := make([]byte, ReceiptMarkBytes), []byte("another key, of thirty-two bytes")
	refused(t, s, api.Invalid, BeginReceipts{Mark: mark[1:]})
	refused(t, s, api.Exists, BeginReceipts{})
	done(t, s, BeginReceipts{Mark: mark, Since: api.Term{Number: 3}})
	refused(t, s, api.Exists, BeginReceipts{Mark: mark, Since: api.Term{Number: 4}})
	if s.Receipts.Since != (api.Term{Number: 3}) || !s.Receipts.Began.Equal(epoch) {
		t.Errorf("receipts are %+v", s.Receipts)
	}
	done(t, s, BeginReceipts{Mark: other, Since: api.Term{Number: 5}})
	if s.Receipts.Since != (api.Term{Number: 5}) {
		t.Errorf("receipts of another key are %+v", s.Receipts)
	}
	done(t, s, BeginReceipts{})
	if len(s.Receipts.Mark) != 0 || !s.Receipts.Began.IsZero() {
		t.Errorf("receipts have ended, and are %+v", s.Receipts)
	}
}
