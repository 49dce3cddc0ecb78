// Package walls says what isolates the tasks of an agent on its machine: a list of named abilities, found once when the
// agent starts. The list is one line of the log, is shown with the agent, and is the attribute "isolation", so that a
// framework can ask for agents that have what it needs. Package cell has the control groups themselves.
//
// It only names what other packages have found. It never tests anything itself, and never decides what becomes of a
// task.
package walls

import (
	"slices"
	"strings"

	"github.com/tenderhq/tender/agent/walls/cell"
)

// Attribute is the name of the attribute that shows the abilities of an agent. Its value names them with commas between,
// the grade of its control groups first: attributes["isolation"].contains("memory") is a constraint.
const Attribute = "isolation"

// Found is what a machine can do, and what it can't.
type Found struct {
	// Abilities are names of one word, the grade of the control groups first, the others sorted.
	Abilities []string
	// Lacks says for people what is missing and why, a sentence each.
	Lacks []string
}

// FromCells are the abilities of control groups.
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

// Add names one more ability.
func (f *Found) Add(ability string) {
	if !f.Has(ability) {
		f.Abilities = append(f.Abilities, ability)
		slices.Sort(f.Abilities[1:])
	}
}

// Lack says one more thing that is missing, as a sentence.
func (f *Found) Lack(why string) { f.Lacks = append(f.Lacks, why) }

// Has tells whether the machine has an ability.
func (f *Found) Has(ability string) bool { return slices.Contains(f.Abilities, ability) }

// String is the value of the attribute.
func (f *Found) String() string { return strings.Join(f.Abilities, ",") }
