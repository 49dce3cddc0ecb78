package engine

import (
	"testing"
)

// Every refusal has a row in the table: a sentence for one agent, and words for several.
func TestEveryRefusalIsExplained(t *testing.T) {
	for why, row := range refusals {
		if row.plural == "" || row.say == nil {
			t.Errorf("refusal %d has no row in the table of refusals, or half of one", why)
		}
	}
}
