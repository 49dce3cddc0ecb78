// Package calls denies programs those calls of the kernel that change the machine, look into others, or that nearly no
// program needs and through which kernels were broken before: a filter of seccomp. Whatever is not on the list stays as it
// is, and a denied call fails with EPERM, as for somebody without the right to it. Once on, a filter is never taken off,
// and all that is started has it too.
//
// It is a second wall: who has no right to a call can't make it anyway. The package never decides who has the filter.
package calls

import "strings"

// Ability is the name of the filter among what keeps tasks apart.
const Ability = "seccomp"

// Denied names the calls that fail, sorted. Those that make processes do so only where they ask for namespaces.
func Denied() []string {
	var names []string
	for _, one := range denied {
		names = append(names, one.name)
	}
	return names
}

// String is the list for people.
func String() string { return strings.Join(Denied(), ", ") }
