package books

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list is a sorted slice, whatever is inserted, moved and removed.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List
		var model []Entry
		draw := func(id int32) Entry {
			return Entry{float64(rapid.IntRange(0, 20).Draw(t, "share")), uint64(rapid.IntRange(0, 5).Draw(t, "served")), id}
		}
		steps := rapid.IntRange(1, 1500).Draw(t, "steps")
		for i := range steps {
			switch what := i % 7; {
			case what < 4 || len(model) == 0:
				e := draw(int32(i))
				l.Insert(e)
				model = append(model, e)
			case what == 4:
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				if !l.Remove(model[at]) {
					t.Fatalf("%v was not found", model[at])
				}
				model = slices.Delete(model, at, at+1)
			default:
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				to := draw(model[at].ID)
				l.Move(model[at], to)
				model[at] = to
			}
		}
		if l.Remove(Entry{Share: -1}) {
			t.Fatal("removed what was never there")
		}
		slices.SortFunc(model, func(a, b Entry) int {
			if a.before(b) {
				return -1
			}
			return +1
		})
		if got := slices.Concat(l.Chunks...); !slices.Equal(got, model) || l.Size != len(model) {
			t.Fatalf("got %v (size %d), want %v", got, l.Size, model)
		}
	})
}
