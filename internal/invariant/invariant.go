// Package invariant stops a computation whose own rules are broken, in production
// too, with its evidence. It never judges input: a peer's mistake is an error.
package invariant

import "fmt"

// Broken is what Check panics with. A shell that runs a core recovers it, logs the
// evidence and ends that core's work, not the process of every master in turn (R18).
type Broken struct{ Evidence string }

func (b Broken) Error() string { return "broken invariant: " + b.Evidence }

// Check panics with [Broken] unless holds. Keep arguments cheap: they are always made.
func Check(holds bool, format string, args ...any) {
	if !holds {
		panic(Broken{fmt.Sprintf(format, args...)})
	}
}
