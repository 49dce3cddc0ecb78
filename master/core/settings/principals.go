package settings

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

// Grant gives a grant to a principal.
type Grant struct {
	Principal string
	Grant     rights.Grant
}

// Ask refuses a grant that the caller could not give: nobody gives more than he has.
func (s Grant) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "principal.grant"
	if err := mayGive(of.Registry, op, s.Principal, s.Grant, by); err != nil {
		return Question{}, err
	}
	change := registry.Grant{Principal: s.Principal, Grant: s.Grant}
	done := fmt.Sprintf("%s may %s", s.Principal, s.Grant)
	if others := othersThan(s.Grant, of.Registry.Principals[s.Principal].Grants); others != "" {
		done += "; it also may, as before: " + others // a grant restricts nothing that was granted before
	}
	return Question{op, s.Principal, change, done}, nil
}

// othersThan lists the grants of a principal other than this one; "" if there are none.
func othersThan(grant rights.Grant, grants []rights.Grant) string {
	var others []string
	for _, other := range grants {
		if other != grant {
			others = append(others, other.String())
		}
	}
	return strings.Join(others, ", ")
}

// mayGive says why the caller may not give the grant, or take it back.
func mayGive(state *registry.State, op, principal string, grant rights.Grant, by rights.Scope) *api.Error {
	if !by.MayGive(grant) {
		return api.E(op, api.Denied, principal, fmt.Errorf("%s may not grant '%s': nobody gives more than he has, and takes what he could not give", by.Who, grant))
	}
	return nil
}

// Take takes a grant back from a principal.
type Take struct {
	Principal string
	Grant     rights.Grant
}

// Ask refuses to take a grant that the caller could not give back.
func (s Take) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "principal.take"
	if err := cmp.Or(mayGive(of.Registry, op, s.Principal, s.Grant, by), notHimself(op, s.Principal, by)); err != nil {
		return Question{}, err
	}
	change := registry.TakeGrant{Principal: s.Principal, Grant: s.Grant}
	done := fmt.Sprintf("%s may %s no more", s.Principal, s.Grant)
	if others := othersThan(s.Grant, of.Registry.Principals[s.Principal].Grants); others != "" {
		done += "; it still may: " + others
	}
	return Question{op, s.Principal, change, done}, nil
}

// notHimself refuses that a caller takes from himself what only others could give back.
func notHimself(op, principal string, by rights.Scope) *api.Error {
	if by.Who == "" || by.Who != principal {
		return nil
	}
	return api.E(op, api.Invalid, principal, errors.New("nobody ends himself or takes from himself what only others could give back; ask another admin"))
}

// Revoke revokes a principal.
type Revoke struct {
	Principal string
	Why       string // "" = by an operator
}

// Ask allows it to a caller who could give everything that the principal was granted. If it was granted nothing, only
// an admin may revoke it.
func (s Revoke) Ask(of Leader, by rights.Scope) (Question, *api.Error) {
	const op = "principal.revoke"
	if err := notHimself(op, s.Principal, by); err != nil {
		return Question{}, err
	}
	saw := of.Registry.Principals[s.Principal].Grants
	grants := saw
	if len(grants) == 0 {
		grants = []rights.Grant{{Verb: rights.Admin}}
	}
	for _, grant := range grants {
		if err := mayGive(of.Registry, op, s.Principal, grant, by); err != nil {
			return Question{}, err
		}
	}
	change := registry.RevokePrincipal{Principal: s.Principal, Why: cmp.Or(s.Why, "by an operator"), SawGrants: saw}
	return Question{op, s.Principal, change, fmt.Sprintf("%s is revoked; its streams end, its tokens let nobody in, and its name is not given again for 14 days", s.Principal)}, nil
}
