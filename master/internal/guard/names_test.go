package guard

import (
	"fmt"
	"testing"
)

// TestNamesAreBounded: however many principals there are, a metric has a bounded number of lines, and one for the rest.
func TestNamesAreBounded(t *testing.T) {
	var names Names
	seen := make(map[string]bool)
	for range 2 {
		for i := range 3 * NamesMax {
			seen[names.Of(fmt.Sprint("p", i))] = true
		}
	}
	if len(seen) != NamesMax+1 || !seen[Others] || names.Of("p0") != "p0" || names.Of("") != "" {
		t.Errorf("%d names", len(seen))
	}
}
