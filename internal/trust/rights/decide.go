package rights

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/words"
)

// Kind is the kind of a caller.
type Kind string

// The kinds of callers. All but Anybody come from certificates and have the same names as in package trust.
const (
	Nobody    Kind = "nobody"    // it has shown no certificate of this cluster
	Anybody   Kind = "anybody"   // it is not identified, because the cluster runs without identities
	Master    Kind = "master"    // a member of the quorum
	Agent     Kind = "agent"     // named by the nonce by which it was admitted (R7)
	Framework Kind = "framework" // a scheduler, named by its principal
	Person    Kind = "person"    // somebody who types commands, named by the principal
)

// Caller says who asks, and what is known about it.
type Caller struct {
	Kind Kind
	Name string
	// Foreign is the other cluster whose certificate it shows; "": it shows one of ours or none.
	Foreign string
	// Grants are the grants of its principal.
	Grants []Grant
	// Revoked says why its identity is void; "": it is not.
	Revoked string
	// Browser says that it was identified by a browser's cookie, with which one may look, and change what the page has a
	// form for.
	Browser bool
}

// String names the caller for people.
func (c Caller) String() string {
	switch c.Kind {
	case Nobody, Anybody:
		return string(c.Kind)
	default:
		if c.Browser {
			return string(c.Kind) + " " + c.Name + " by a browser"
		}
		return string(c.Kind) + " " + c.Name
	}
}

// Principal returns the name that the caller's frameworks and grants belong to; "" if it has no principal.
func (c Caller) Principal() string {
	if c.Kind == Framework || c.Kind == Person {
		return c.Name
	}
	return ""
}

// Decide returns on which objects the caller may do what the row is about, or why it may not. For a row about the whole
// cluster the answer is complete. For other rows, the code that knows the object has to ask the Scope.
func Decide(row Row, c Caller) (Scope, *api.Error) {
	switch {
	case c.Kind == Anybody:
		return All(), nil
	case slices.Contains(row.Kinds, Nobody):
		return All(), nil
	case c.Foreign != "":
		return Scope{}, denied(row, c, fmt.Sprintf("the certificate is of cluster %s; use one of this cluster", c.Foreign))
	case c.Kind == Nobody || c.Kind == "":
		return Scope{}, denied(row, c, "it needs a certificate of this cluster; an operator gives a token for one: tender token create")
	case c.Revoked != "":
		err := denied(row, c, c.Revoked)
		err.Err = protocol.Revoked(err.Err.Error())
		return Scope{}, err
	case c.Browser && row.Changes && !row.Page:
		return Scope{}, denied(row, c, "the page has no form for it, so a browser's cookie is no right to; the commands do it (tender login)")
	case slices.Contains(row.Kinds, c.Kind):
		return Scope{Who: c.Principal(), Everything: true}, nil
	case c.Principal() == "" || row.Verb == None:
		return Scope{}, denied(row, c, "only "+row.kindsText()+" may")
	}
	scope := Scope{Who: c.Principal()}
	for _, g := range c.Grants {
		if g.Verb.includes(row) {
			scope.Grants = append(scope.Grants, g)
		}
		scope.Own = scope.Own || row.Own && (g.Verb == Run || g.Verb == Admin)
	}
	switch {
	case len(scope.Grants) == 0 && !scope.Own:
		return Scope{}, denied(row, c, missing(row, c, Object{}))
	case row.On == OnCluster && !scope.Covers(Object{}):
		return Scope{}, denied(row, c, "what "+c.Name+" was granted is restricted, and this is about the whole cluster; "+give(row, c, Object{}))
	}
	return scope, nil
}

// RevokedFor is how long masters and agents remember that a principal was revoked. No certificate of a principal is valid
// for longer.
const RevokedFor = 14 * 24 * time.Hour

// Refuse returns the error for an object that the scope of a caller does not cover.
func Refuse(row Row, who string, o Object) *api.Error {
	c := Caller{Kind: Person, Name: who}
	return denied(row, c, missing(row, c, o))
}

// RefuseAction is Refuse for code that knows only the name of the action.
func RefuseAction(action, who string, o Object) *api.Error {
	for _, row := range Table {
		if row.Action == action {
			return Refuse(row, who, o)
		}
	}
	return api.E("rights", api.Denied, who, fmt.Errorf("there is no action %s", action))
}

// RefuseVerb is Refuse for a part of a row that needs another verb than the rest.
func RefuseVerb(does string, verb Verb, who string, o Object) *api.Error {
	row, c := Row{Verb: verb}, Caller{Kind: Person, Name: who}
	return api.E("rights", api.Denied, who, fmt.Errorf("may not %s: %s", does, missing(row, c, o)))
}

// RefuseUser returns the error for a task that may not run as a user.
func RefuseUser(who string, role api.Role, user string) *api.Error {
	grant := Grant{Verb: Run, Role: role, User: user}
	return api.E("rights", api.Denied, who, fmt.Errorf("%s may not run tasks as %s in role %s; an operator gives the grant: tender grant %s %s",
		who, user, role, words.Quote(who), grant))
}

func denied(row Row, c Caller, why string) *api.Error {
	subject := c.Name
	if subject == "" {
		subject = string(c.Kind)
	}
	return api.E("rights", api.Denied, subject, fmt.Errorf("may not %s: %s", row.Does(), why))
}

// missing says which grant is missing, and how to give it.
func missing(row Row, c Caller, o Object) string {
	text := "it needs the grant '" + string(row.Verb) + "'"
	if row.Or != None {
		text += " or '" + string(row.Or) + "'"
	}
	if row.Verb != Verb(row.Action) && row.Action != "" {
		text += " or '" + row.Action + "'"
	}
	if on := o.words(); on != "" {
		text += " on " + on
	}
	return text + "; " + give(row, c, o)
}

func give(row Row, c Caller, o Object) string {
	verb := row.Verb
	if (verb == Operate || verb == Admin) && row.Action != "" {
		verb = Verb(row.Action) // no more than is needed
	}
	g := Grant{Verb: verb, Role: o.Role, Agent: string(o.Agent)}
	if o.Role == "" {
		g.Framework = string(o.Framework)
	}
	return "an operator gives it: tender grant " + words.Quote(c.Name) + " " + g.String()
}

// words names an object for people.
func (o Object) words() string {
	var parts []string
	if o.Framework != "" {
		parts = append(parts, "framework "+string(o.Framework))
	}
	if o.Role != "" {
		parts = append(parts, "role "+string(o.Role))
	}
	if o.Agent != "" {
		parts = append(parts, "agent "+string(o.Agent))
	}
	return strings.Join(parts, ", ")
}
