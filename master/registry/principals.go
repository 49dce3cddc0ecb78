package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// Principal is somebody who was granted something: a person, or those who run a framework. Its name is what the
// transport says about a caller.
type Principal struct {
	Grants  []rights.Grant // replaced, never edited; no two are the same
	Created time.Time
	Revoked time.Time // zero: it is not revoked
	Why     string    // why it was revoked
}

// Grant gives a principal a grant. An unknown principal is created.
type Grant struct {
	Principal string
	Grant     rights.Grant
}

func (change Grant) apply(s *State, at time.Time) Result {
	const op = "principal.grant"
	if bad := refuseID(op, "principal", change.Principal); bad != nil {
		return *bad
	}
	if err := change.Grant.Check(); err != nil {
		return Result{Err: api.E(op, api.Invalid, change.Principal, err)}
	}
	was, known := s.Principals[change.Principal]
	switch {
	case !known && len(s.Principals) >= PrincipalsMax:
		return refuse(op, api.Limit, change.Principal, "%d principals are known; revoke those that nobody needs", PrincipalsMax)
	case !was.Revoked.IsZero():
		return refuse(op, api.Removed, change.Principal, "it was revoked at %s: %s; take another name, as its certificates may still be about",
			was.Revoked.Format(time.RFC3339), was.Why)
	case slices.Contains(was.Grants, change.Grant):
		return Result{}
	case len(was.Grants) >= GrantsMax:
		return refuse(op, api.Limit, change.Principal, "it has %d grants, which is the most; take some back, or grant a role above them", GrantsMax)
	case !known:
		was.Created = at
	}
	was.Grants = append(slices.Clip(was.Grants), change.Grant)
	s.setPrincipal(change.Principal, was)
	return Result{}
}

func (Grant) saw() sight {
	return blind("it adds one grant, whatever there are besides; to a principal that was revoked it is refused")
}

// TakeGrant takes a grant back.
type TakeGrant struct {
	Principal string
	Grant     rights.Grant
}

func (change TakeGrant) apply(s *State, _ time.Time) Result {
	const op = "principal.take"
	was, known := s.Principals[change.Principal]
	i := slices.Index(was.Grants, change.Grant)
	switch {
	case !known:
		return refuse(op, api.NotFound, change.Principal, "no such principal")
	case i < 0:
		return refuse(op, api.NotFound, change.Principal, "it was never granted %q; a grant is taken back in the words in which it was given", change.Grant)
	}
	was.Grants = slices.Delete(slices.Clone(was.Grants), i, i+1)
	s.setPrincipal(change.Principal, was)
	return Result{}
}

func (TakeGrant) saw() sight {
	return blind("it names what it takes; when that is not there, it is refused")
}

// RevokePrincipal revokes a principal, so that its certificates are no longer accepted. Its name is remembered until
// none of them can be valid any more. The leader has its tokens revoked. Whoever revokes it must be allowed to take
// everything that it was granted, so that must still be what he saw.
type RevokePrincipal struct {
	Principal string
	Why       string
	SawGrants []rights.Grant
}

func (change RevokePrincipal) apply(s *State, at time.Time) Result {
	const op = "principal.revoke"
	if bad := refuseID(op, "principal", change.Principal); bad != nil {
		return *bad
	}
	was, known := s.Principals[change.Principal]
	switch {
	case !known: // one that was never granted anything, but may have a certificate
		return refuse(op, api.NotFound, change.Principal, "no such principal")
	case !was.Revoked.IsZero():
		return refuse(op, api.Removed, change.Principal, "it was revoked at %s: %s", was.Revoked.Format(time.RFC3339), was.Why)
	}
	was.Grants, was.Revoked, was.Why = nil, at, change.Why
	s.setPrincipal(change.Principal, was)
	return Result{}
}

func (change RevokePrincipal) saw() sight {
	return sawGrants{change.Principal, change.SawGrants}
}

// ChangesRights reports whether a change may give or take rights, or concerns the certificates by which somebody is
// known.
func ChangesRights(change Change) bool {
	switch change.(type) {
	case Grant, TakeGrant, RevokePrincipal, Expire, RotateAuthority:
		return true
	default:
		return false
	}
}

// setPrincipal replaces a principal. Changes are rare and the map is small, so it is copied each time and clones share
// it.
func (s *State) setPrincipal(name string, principal Principal) {
	s.Principals = copied(s.Principals)
	s.Principals[name] = principal
}

// expirePrincipals forgets principals that were revoked before that time. Their certificates have expired.
func (s *State) expirePrincipals(change Expire) {
	old := func(_ string, p Principal) bool { return !p.Revoked.IsZero() && p.Revoked.Before(change.Before) }
	s.Principals = maps.Clone(s.Principals)
	maps.DeleteFunc(s.Principals, old)
}
