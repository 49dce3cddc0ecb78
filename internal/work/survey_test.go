package work_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/internal/work"
)

// TestSurvey: whatever happens to the items, the survey says of those that were touched what a walk over all says.
func TestSurvey(t *testing.T) {
	type item struct {
		stand work.Stand
		up    bool
	}
	rapid.Check(t, func(t *rapid.T) {
		items := make([]item, rapid.IntRange(0, 6).Draw(t, "items"))
		draw := func(int) item {
			return item{work.Stand(rapid.IntRange(0, 3).Draw(t, "stand")), rapid.Bool().Draw(t, "up")}
		}
		var s work.Survey
		s.Touch(3) // nothing changes yet
		s.Begin(len(items))
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			for i := range items {
				if rapid.Bool().Draw(t, "touched") {
					items[i] = draw(i)
					s.Touch(i)
				}
			}
			looks := 0
			s.Look(func(number int) (work.Stand, bool) {
				if looks++; looks == 1 && rapid.Bool().Draw(t, "one that is touched while it is looked at") {
					items[number] = draw(number)
					s.Touch(number)
				}
				return items[number].stand, items[number].up
			})
			count := func(is func(item) bool) (n int) {
				for _, one := range items {
					if is(one) {
						n++
					}
				}
				return n
			}
			for stand := work.Old; stand <= work.Changed; stand++ {
				if want := count(func(one item) bool { return one.stand == stand }); s.Count(stand) != want {
					t.Fatalf("%d stand at %d, want %d of %v", s.Count(stand), stand, want, items)
				}
			}
			atOnce, beside := rapid.IntRange(1, 3).Draw(t, "at once"), rapid.Bool().Draw(t, "beside")
			want := slices.Index(items, item{work.Old, false})
			if down := count(func(one item) bool { return one.stand != work.Absent && !one.up }); want < 0 && (down < atOnce || beside) {
				want = slices.Index(items, item{work.Old, true})
			}
			if count(func(one item) bool { return one.stand == work.Tried }) >= atOnce {
				want = -1
			}
			if next, is := s.Next(atOnce, beside); is != (want >= 0) || is && next != want {
				t.Fatalf("%d is next (%t), want %d of %v with %d at once", next, is, want, items, atOnce)
			}
		}
	})
}
