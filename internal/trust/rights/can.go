package rights

import (
	"github.com/tenderhq/tender/api"

	"github.com/tenderhq/tender/internal/words"
)

// Can returns why the caller may not do what the grant would allow, or nil. It is for callers that ask before they try.
func Can(c Caller, wish Grant) *api.Error {
	if err := wish.Check(); err != nil {
		return api.E("rights", api.Invalid, string(wish.Verb), err)
	}
	row := Row{Verb: wish.Verb, On: OnItself}
	for _, known := range Table {
		if known.Action == string(wish.Verb) {
			row = known
			row.On = OnItself // the object is checked below
		}
	}
	scope, err := Decide(row, c)
	if err != nil {
		return err
	}
	object := Object{Role: wish.Role, Framework: api.FrameworkID(wish.Framework), Name: wish.Framework, Agent: api.AgentID(wish.Agent), Hostname: wish.Agent}
	if !scope.Covers(object) {
		return denied(row, c, missing(row, c, object))
	}
	if wish.User != "" && !scope.MayRunAs(object, wish.User) {
		return denied(row, c, "it may not run tasks as "+wish.User+"; an operator gives it: tender grant "+words.Quote(c.Name)+" "+wish.String())
	}
	return nil
}
