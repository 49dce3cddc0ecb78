package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Match says which values an attribute of an agent may have. In a job file it is a text ("ssd"), a list of texts, of
// which it is one, or a table {not = ...} with a text or a list, of which it is none. An agent that has no such attribute
// has the value "".
type Match struct {
	Not    bool
	Values []string
}

// Is returns a match of attributes that have one of the values.
func Is(values ...string) Match { return Match{Values: values} }

// Not returns a match of attributes that have none of the values.
func Not(values ...string) Match { return Match{Not: true, Values: values} }

// MarshalJSON implements [json.Marshaler].
func (m Match) MarshalJSON() ([]byte, error) {
	var values any = m.Values
	if len(m.Values) == 1 {
		values = m.Values[0]
	}
	if m.Not {
		values = map[string]any{"not": values}
	}
	return json.Marshal(values)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Match) UnmarshalJSON(text []byte) error {
	var from any
	if err := json.Unmarshal(text, &from); err != nil {
		return err
	}
	match, is := MatchOf(from)
	if !is {
		return fmt.Errorf("%s is no match; %s", text, MatchForm)
	}
	*m = match
	return nil
}

// MatchForm says how a [Match] is written.
const MatchForm = `write a text, a list of texts, or a table such as {not = "hdd"} with either`

// MatchOf makes a match from a value of a file; false: it has another form.
func MatchOf(from any) (m Match, is bool) {
	if table, negated := from.(map[string]any); negated {
		from, is = table["not"]
		if !is || len(table) != 1 {
			return m, false
		}
		m.Not = true
	}
	switch from := from.(type) {
	case string:
		m.Values = []string{from}
	case []any:
		for _, element := range from {
			text, is := element.(string)
			if !is {
				return m, false
			}
			m.Values = append(m.Values, text)
		}
	}
	return m, len(m.Values) > 0
}

// fits says whether a value matches.
func (m Match) fits(value string) bool { return slices.Contains(m.Values, value) != m.Not }

// constraint returns the match of what an expression stands for, as a constraint.
func (m Match) constraint(what string) string {
	compare, join := " == ", " || "
	if m.Not {
		compare, join = " != ", " && "
	}
	var parts []string
	for _, value := range m.Values {
		parts = append(parts, what+compare+strconv.Quote(value))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, join) + ")"
}

// WantedAgent returns what the task wants of its agent, as a constraint for the masters.
func (t Task) WantedAgent() string {
	var parts []string
	if t.Image != "" {
		parts = append(parts, api.ImageConstraint)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Where)) {
		what := "attributes[?" + strconv.Quote(name) + "].orValue(\"\")"
		if name == "hostname" || name == "region" || name == "zone" {
			what = name
		}
		parts = append(parts, t.Where[name].constraint(what))
	}
	if t.Constraint != "" {
		parts = append(parts, "("+t.Constraint+")")
	}
	return strings.Join(parts, " && ")
}

// Judge reads a constraint, and returns a function that says whether the agent of an offer meets it. It is a function
// that the caller provides, as the language of constraints would come to all users of the SDK.
type Judge func(constraint string) (meets func(api.Offer) bool, err error)

// CheckConstraints returns what is wrong with the constraints of the job's tasks, as [Problems], or nil.
func (j Job) CheckConstraints(judge Judge) error {
	var found Problems
	check := func(field string, task Task) {
		if task.Constraint == "" {
			return
		}
		if judge == nil {
			found.say(field, "this job manager can't judge constraints (manager.Config); write where")
		} else if _, err := judge(task.Constraint); err != nil {
			found.say(field, "%v", err)
		}
	}
	check("task.constraint", j.Task)
	for i, step := range j.Steps {
		check(fmt.Sprintf("steps[%d].task.constraint", i), step.Task)
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

// Fits reports whether the offer's agent is one that the task may run on, by all but its Constraint.
func (t Task) Fits(offer api.Offer) bool {
	if t.Image != "" && !strings.Contains(offer.Attributes["isolation"], "images") {
		return false
	}
	for name, match := range t.Where { // order: irrelevant because all must hold
		has := offer.Attributes[name]
		switch name {
		case "hostname":
			has = offer.Hostname
		case "region":
			has = offer.Region
		case "zone":
			has = offer.Zone
		}
		if !match.fits(has) {
			return false
		}
	}
	return true
}
