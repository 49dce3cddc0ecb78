// Package walls says what isolates the tasks of an agent on its machine: a list of named abilities, found once when the
// agent starts. The list is one line of the log, is shown with the agent, and is the attribute "isolation", so that a
// framework can ask for agents that have what it needs. Package cell has the control groups themselves.
//
// It also gives each executor its cell and its limits, and shows folders to executors with namespaces. It never decides
// what becomes of a task.
package walls

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// Attribute is the name of the attribute that shows the abilities of an agent. Its value names them with commas
// between, the grade of its control groups first: attributes["isolation"].contains("memory") is a constraint.
const Attribute = "isolation"

// Found says what can isolate tasks on a machine, and what is missing.
type Found struct {
	// Abilities are names of one word each: the grade of the control groups first, then the others, sorted.
	Abilities []string
	// Lacks says for people what is missing and why, a sentence for each.
	Lacks []string
}

// FromCells returns the abilities of the control groups of a tree.
func FromCells(tree cell.Tree) Found {
	found := Found{Abilities: []string{string(cell.Groups)}}
	if tree.Makes {
		found.Abilities[0] = string(tree.Root.Grade)
		for _, controller := range tree.Root.Controllers() {
			found.Add(controller)
		}
	}
	if tree.Lacks != "" {
		found.Lack(tree.Lacks)
	}
	return found
}

// Add adds an ability, once.
func (f *Found) Add(ability string) {
	if !f.Has(ability) {
		f.Abilities = append(f.Abilities, ability)
		slices.Sort(f.Abilities[1:])
	}
}

// Lack adds a sentence that says what is missing.
func (f *Found) Lack(why string) { f.Lacks = append(f.Lacks, why) }

// Has reports whether an ability is among them.
func (f *Found) Has(ability string) bool { return slices.Contains(f.Abilities, ability) }

// String returns the value of the attribute "isolation".
func (f *Found) String() string { return strings.Join(f.Abilities, ",") }
