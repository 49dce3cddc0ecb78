package keeper

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

// TestEachJobHasItsTurn: whatever has changed before, each job that waits gets one turn, in the order of priority and
// then of how much each has. If there is no room for a shape, the other jobs with this shape get no turn.
func TestEachJobHasItsTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWants()
		shapes := []core.Ask{
			{SubJob: "main", Count: 1, Task: jobs.Task{Command: "a", CPUs: 1}}, {SubJob: "main", Count: 1, Task: jobs.Task{Command: "b", CPUs: 2}},
			{SubJob: "main", Count: 1, Task: jobs.Task{Command: "c", Where: map[string]jobs.Match{"disk": jobs.Is("ssd")}}},
		}
		plainOnes := []bool{true, true, false}
		line := map[string]int{} // of a job: its shape
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			name := rapid.StringMatching("[a-h]").Draw(t, "job")
			if old := w.byJob[name]; old != nil {
				w.line.leave(old)
				delete(w.byJob, name)
				delete(line, name)
			}
			if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				continue
			}
			shape := rapid.IntRange(0, 2).Draw(t, "shape")
			want := &want{name: name, priority: rapid.IntRange(0, 1).Draw(t, "priority"), busy: rapid.IntRange(0, 3).Draw(t, "busy"), asks: shapes[shape : shape+1]}
			if plain(want.asks[0]) != plainOnes[shape] {
				t.Fatalf("%+v is plain: %v", want.asks[0], plain(want.asks[0]))
			}
			if plainOnes[shape] {
				want.only = string(rune('0' + shape))
			}
			w.byJob[name], line[name] = want, shape
			w.line.enter(want)
			w.line.move(want, rapid.IntRange(0, 3).Draw(t, "busy now"))
		}
		fullAfter := rapid.IntRange(0, 8).Draw(t, "turns of the first shape until it is full")
		full, had := map[string]bool{}, []*want{}
		for want := range w.line.turns(full) {
			had = append(had, want)
			if line[want.name] == 0 {
				if fullAfter--; fullAfter <= 0 {
					full["0"] = true
				}
			}
		}
		if !slices.IsSortedFunc(had, byTurn) {
			t.Fatalf("the turns are not in order: %v", had)
		}
		turns := map[string]int{}
		for _, want := range had {
			turns[want.name]++
		}
		firsts := 0
		for name, shape := range line {
			switch {
			case shape != 0 && turns[name] != 1:
				t.Fatalf("%s has %d turns", name, turns[name])
			case shape == 0:
				firsts += turns[name]
			}
		}
		if full["0"] && fullAfter < 0 && firsts > 1 {
			t.Fatalf("a shape without room had %d turns more", -fullAfter)
		}
	})
}
