package rights

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Kind is what a caller is to the cluster.
type Kind string

// The kinds of callers. All but Anybody come from certificates, by the same names as in package trust.
const (
	Nobody    Kind = "nobody"    // has shown no certificate of this cluster
	Anybody   Kind = "anybody"   // is not asked: the cluster runs without identities
	Master    Kind = "master"    // of the quorum
	Agent     Kind = "agent"     // named by the nonce by which it was admitted (R7)
	Framework Kind = "framework" // a scheduler, named by its principal
	Person    Kind = "person"    // who types commands, named by the principal
)

// Caller is who asks, and what is known of it.
type Caller struct {
	Kind Kind
	Name string
	// Foreign is the other cluster whose certificate it shows; "": it shows ours or none.
	Foreign string
	// Grants are the principal's.
	Grants []Grant
	// Revoked says why its identity counts no more; "": it counts.
	Revoked string
	// Browser: it is known by the cookie of a browser, which lets one look and change nothing.
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

// Principal is the name under which the caller's frameworks and grants stand; "" of those who have none.
func (c Caller) Principal() string {
	if c.Kind == Framework || c.Kind == Person {
		return c.Name
	}
	return ""
}

// Decide says on which objects the caller may do what the row is about, or why it may not. Where the row's objects are
// those of the whole cluster, the answer is whole; else whoever knows the object asks its scope.
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
	case c.Browser && row.Changes:
		return Scope{}, denied(row, c, "a browser's cookie lets one look and change nothing; the commands do (tender login)")
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

// Refuse is the error for an object that the scope of a caller does not cover.
func Refuse(row Row, who string, o Object) *api.Error {
	c := Caller{Kind: Person, Name: who}
	return denied(row, c, missing(row, c, o))
}

// RefuseAction is Refuse for whoever knows only the action by its name.
func RefuseAction(action, who string, o Object) *api.Error {
	for _, row := range Table {
		if row.Action == action {
			return Refuse(row, who, o)
		}
	}
	return api.E("rights", api.Denied, who, fmt.Errorf("there is no action %s", action))
}

// RefuseVerb is Refuse for a part of a row that takes another verb than the rest.
func RefuseVerb(does string, verb Verb, who string, o Object) *api.Error {
	row, c := Row{Verb: verb}, Caller{Kind: Person, Name: who}
	return api.E("rights", api.Denied, who, fmt.Errorf("may not %s: %s", does, missing(row, c, o)))
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
		verb = Verb(row.Action) // not more than is needed
	}
	g := Grant{Verb: verb, Role: o.Role, Agent: string(o.Agent)}
	if o.Role == "" {
		g.Framework = string(o.Framework)
	}
	return "an operator gives it: tender grant " + quoted(c.Name) + " " + g.String()
}

// words name an object for people.
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
