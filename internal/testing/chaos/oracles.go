package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Life is what the framework of a task saw of it, and the machine on which it ran.
type Life struct {
	Launched bool
	Starts   int      // how often it was seen to start
	Runs     bool     // it still runs
	Ends     []string // the different terminal states that its framework was told
	Right    []string // the states in which it ends by itself, once it has started
	Excused  bool     // somebody ended it, or a fault did
}

// Wrong returns what is wrong with a task after everything has come to rest; "" if nothing is.
func (l Life) Wrong() string {
	ends, right := strings.Join(l.Ends, " and "), strings.Join(l.Right, " or ")
	switch {
	case !l.Launched:
		return "ended " + ends + " and was never launched"
	case len(l.Ends) == 0:
		return "was launched and its framework was never told an end"
	case len(l.Ends) > 1:
		return "ended " + ends
	case l.Starts > 1:
		return fmt.Sprintf("was started %d times, and ended %s", l.Starts, ends)
	case l.Runs:
		return "has ended " + ends + " and still runs"
	case l.Excused:
		return ""
	case l.Starts == 0 && slices.Contains(l.Right, ends):
		return "never started and is told " + ends
	case l.Starts > 0 && !slices.Contains(l.Right, ends):
		return fmt.Sprintf("should have ended %s by itself and is told %s", cmp.Or(right, "never"), ends)
	}
	return ""
}
