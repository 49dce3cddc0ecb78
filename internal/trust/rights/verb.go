package rights

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is what a grant allows: one of the four verbs below, or the name of a single action (Row.Action).
type Verb string

// The verbs. None is the verb of what needs no grant.
const (
	None    Verb = ""
	View    Verb = "view"    // look at agents, frameworks, tasks, offers, roles, metrics
	Run     Verb = "run"     // subscribe as a framework: launch tasks, keep a store, see one's own things and end them
	Operate Verb = "operate" // view, and whatever ends or moves work: kill, remove a framework, drain, maintenance
	Admin   Verb = "admin"   // everything, including granting
)

// verbs are those that are no single actions, the least powerful first.
var verbs = []Verb{View, Run, Operate, Admin}

// includes says whether a grant of v allows what the row is about.
func (v Verb) includes(row Row) bool {
	switch {
	case row.Verb == None:
		return false
	case v == Admin || v == row.Verb || v == row.Or || string(v) == row.Action:
		return true
	}
	return v == Operate && row.Verb == View
}

// Check reports why v can't be granted, or nil.
func (v Verb) Check() error {
	if slices.Contains(verbs, v) || slices.Contains(Actions(), string(v)) {
		return nil
	}
	return fmt.Errorf("there is no verb %q; there are %s, and the single actions %s", string(v), join(verbs, " "), strings.Join(Actions(), " "))
}

// Actions returns the single actions that can be granted by name, sorted.
func Actions() []string {
	var names []string
	for _, row := range Table {
		if row.Verb != None && row.Action != "" && !slices.Contains(names, row.Action) {
			names = append(names, row.Action)
		}
	}
	slices.Sort(names)
	return names
}

func join[S ~string](list []S, between string) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = string(one)
	}
	return strings.Join(texts, between)
}
