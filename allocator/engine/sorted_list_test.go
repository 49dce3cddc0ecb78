package engine

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list is a sorted slice, whatever is inserted, moved and removed.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list
		var model []entry
		draw := func(id int32) entry {
			return entry{float64(rapid.IntRange(0, 20).Draw(t, "share")), uint64(rapid.IntRange(0, 5).Draw(t, "served")), id}
		}
		steps := rapid.IntRange(1, 1500).Draw(t, "steps")
		for i := range steps {
			switch what := i % 7; {
			case what < 4 || len(model) == 0:
				e := draw(int32(i))
				l.insert(e)
				model = append(model, e)
			case what == 4:
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				if !l.remove(model[at]) {
					t.Fatalf("%v was not found", model[at])
				}
				model = slices.Delete(model, at, at+1)
			default:
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				to := draw(model[at].id)
				l.move(model[at], to)
				model[at] = to
			}
		}
		if l.remove(entry{share: -1}) {
			t.Fatal("removed what was never there")
		}
		slices.SortFunc(model, func(a, b entry) int {
			if a.before(b) {
				return -1
			}
			return +1
		})
		if got := slices.Concat(l.chunks...); !slices.Equal(got, model) || l.size != len(model) {
			t.Fatalf("got %v (size %d), want %v", got, l.size, model)
		}
	})
}
