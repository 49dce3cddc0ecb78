package words_test

import (
	"slices"
	"testing"

	"github.com/tenderhq/tender/internal/words"
)

func TestCompareNatural(t *testing.T) {
	sorted := []string{"", "1", "01", "agent-2", "agent-10", "agent-10a", "agent-10b", "agent-011", "agent-x", "b"}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, words.CompareNatural)
	if !slices.Equal(shuffled, sorted) {
		t.Errorf("sorted to %q, want %q", shuffled, sorted)
	}
	for _, a := range sorted {
		for _, b := range sorted {
			if ab, ba := words.CompareNatural(a, b), words.CompareNatural(b, a); (ab < 0) != (ba > 0) || (ab == 0) != (a == b) {
				t.Errorf("%q and %q compare to %d and back to %d", a, b, ab, ba)
			}
		}
	}
}
