package rights

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// AnyUser in a grant stands for every user of the agents' machines.
const AnyUser = "*"

// Grant is one thing that a principal may do: a verb, and on what. An empty field restricts nothing, except User.
type Grant struct {
	Verb      Verb
	Role      api.Role // this one and all below it
	Framework string   // ID or name
	Agent     string   // ID or hostname
	// User is a user that tasks may run as in addition to the agent's default; [AnyUser] is every user. Empty: no other
	// user, except for an admin, who may run tasks as any.
	User string
}

// Check reports why g can't be granted, or nil.
func (g Grant) Check() error {
	if err := g.Verb.Check(); err != nil {
		return err
	}
	if g.Role != "" {
		if err := g.Role.Check(); err != nil {
			return err
		}
	}
	for _, field := range []struct{ noun, value string }{{"the framework", g.Framework}, {"the agent", g.Agent}, {"the user", g.User}} {
		if field.value == "" {
			continue
		}
		if len(field.value) > api.IDBytesMax {
			return fmt.Errorf("%s has %d bytes, at most %d are allowed", field.noun, len(field.value), api.IDBytesMax)
		}
		if strings.ContainsFunc(field.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
			return fmt.Errorf("%s %q holds what is no text", field.noun, field.value)
		}
	}
	if g.User != "" && g.Verb != Run && g.Verb != Admin {
		return fmt.Errorf("a task user goes with %s or %s, as only they launch tasks; not with %s", Run, Admin, g.Verb)
	}
	return nil
}

// String returns the grant as it is typed after `tender grant PRINCIPAL`.
func (g Grant) String() string {
	text := string(g.Verb)
	for _, field := range []struct{ flag, value string }{{"role", string(g.Role)}, {"framework", g.Framework}, {"agent", g.Agent}, {"user", g.User}} {
		if field.value != "" {
			text += " --" + field.flag + " " + words.Quote(field.value)
		}
	}
	return text
}

// covers says whether the object lies within the restrictions of g.
func (g Grant) covers(o Object) bool {
	return (g.Role == "" || o.Role != "" && o.Role.Within(g.Role)) &&
		(g.Framework == "" || g.Framework == string(o.Framework) || g.Framework == o.Name) &&
		(g.Agent == "" || g.Agent == string(o.Agent) || g.Agent == o.Hostname)
}

// within says whether above also allows everything that g allows, as far as objects and users are concerned.
func (g Grant) within(above Grant) bool {
	return (above.Role == "" || g.Role != "" && g.Role.Within(above.Role)) &&
		(above.Framework == "" || above.Framework == g.Framework) &&
		(above.Agent == "" || above.Agent == g.Agent) &&
		(g.runsAs() == "" || above.mayRunAs(g.runsAs()))
}

// runsAs returns the user that tasks may run as besides the agent's default: one user, [AnyUser], or "" for no other.
// An admin's grant without a user means [AnyUser].
func (g Grant) runsAs() string {
	if g.Verb == Admin && g.User == "" {
		return AnyUser
	}
	return g.User
}

// mayRunAs says whether tasks may run as the user; for [AnyUser], as every user.
func (g Grant) mayRunAs(user string) bool { return g.runsAs() == AnyUser || g.runsAs() == user }
