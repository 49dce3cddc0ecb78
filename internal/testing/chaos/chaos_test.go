package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/chaos"
)

// stage writes down what is done on it.
type stage struct{ lines []string }

func (s *stage) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}
func (s *stage) Pass(d time.Duration) error          { s.say("%v", d); return nil }
func (s *stage) Tell(what string, f chaos.Fault)     { s.say("%s %s", f.Do, what) }
func (s *stage) Calm(f chaos.Fault) error            { s.say("calm after %s", f.Do); return nil }
func (s *stage) whom(f chaos.Fault) string           { return fmt.Sprint(f.Do, " of ", f.Of(3)) }
func does(*stage, chaos.Fault) (func() error, error) { return func() error { return nil }, nil }

var acts = []chaos.Act[*stage]{
	{Do: "kill/leader", Weight: 3, Begin: does},
	{Do: "sleep/leader", Weight: 1, Least: 10 * time.Second, Most: 20 * time.Second, Begin: does},
	{Do: "cut/agent", Weight: 1, Most: time.Second, Begin: does},
	{Do: "reboot/agent", Most: time.Second, Begin: func(*stage, chaos.Fault) (func() error, error) { return nil, nil }},
}

// TestPlay: faults overlap as the plan says. Calm is called when nothing is broken, and not before.
func TestPlay(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults []chaos.Fault
		want   string
	}{
		{
			"overlapping", []chaos.Fault{{At: 1, For: 5, Do: "kill/leader"}, {At: 2, For: 1, Do: "cut/agent"}},
			"1ns, kill/leader begins, 1ns, cut/agent begins, 1ns, cut/agent ends, 3ns, kill/leader ends, calm after kill/leader",
		},
		{
			"rounds", []chaos.Fault{{At: 0, For: 5, Do: "kill/leader"}, {At: 5, For: 0, Do: "cut/agent"}},
			"kill/leader begins, 5ns, kill/leader ends, calm after kill/leader, cut/agent begins, cut/agent ends, calm after cut/agent",
		},
		{
			"nothing to mend", []chaos.Fault{{At: 0, For: 5, Do: "reboot/agent"}, {At: 5, For: 1, Do: "cut/agent"}},
			"reboot/agent begins, calm after reboot/agent, 5ns, cut/agent begins, 1ns, cut/agent ends, calm after cut/agent",
		},
	} {
		s := &stage{}
		if err := chaos.Play(chaos.Plan{Faults: test.faults}, s, acts); err != nil || strings.Join(s.lines, ", ") != test.want {
			t.Errorf("%s: %v, %s", test.name, err, strings.Join(s.lines, ", "))
		}
	}
	if chaos.Play(chaos.Plan{Faults: []chaos.Fault{{Do: "burn/house"}}}, &stage{}, acts) == nil {
		t.Error("a fault that nobody knows was done")
	}
}

// TestOn: the target is chosen when the fault begins, and the same one is repaired.
func TestOn(t *testing.T) {
	s := &stage{}
	kill := chaos.On((*stage).whom, func(who string) { s.say("kill %s", who) }, func(who string) { s.say("start %s", who) })
	_ = chaos.Play(chaos.Plan{Faults: []chaos.Fault{{Do: "kill/agent", Whom: 5}, {Do: "kill/agent"}}}, s, []chaos.Act[*stage]{{Do: "kill/agent", Begin: kill}})
	for _, want := range []string{"kill kill/agent of 1", "start kill/agent of 1", "kill kill/agent of 2"} {
		if !slices.Contains(s.lines, want) {
			t.Errorf("%q is not in %q", want, s.lines)
		}
	}
}

// TestDraw: the same seed draws the same plan, by weight. Rounds never overlap and leave nothing out.
func TestDraw(t *testing.T) {
	overlaps := false
	for seed := range uint64(20) {
		plan := chaos.Draw(seed, time.Minute, acts)
		if again := chaos.Draw(seed, time.Minute, acts); !slices.Equal(plan.Faults, again.Faults) || len(plan.Faults) == 0 {
			t.Errorf("%v\nand then %v", plan, again)
		}
		for i, f := range plan.Faults {
			overlaps = overlaps || i > 0 && f.At < plan.Faults[i-1].At+plan.Faults[i-1].For
			if f.Do == "reboot/agent" || f.Do == "cut/agent" && f.For > time.Second {
				t.Errorf("seed %d drew %v", seed, f)
			}
		}
		rounds, seen := chaos.Rounds(seed, 12, acts), map[chaos.FaultKind]bool{}
		for i, f := range rounds.Faults {
			seen[f.Do] = true
			if i > 0 && f.At != rounds.Faults[i-1].At+rounds.Faults[i-1].For {
				t.Errorf("a round does not follow the one before: %v", rounds)
			}
		}
		if len(rounds.Faults) != 12 || len(seen) != len(acts) {
			t.Errorf("rounds: %v", rounds)
		}
		for _, f := range chaos.Rounds(seed, 2, acts).Faults {
			if f.Do == "sleep/leader" {
				t.Errorf("a short run takes long: %v", f)
			}
		}
	}
	if !overlaps {
		t.Error("no faults overlap")
	}
}

// TestShrink: the faults that are left are those that are needed to fail.
func TestShrink(t *testing.T) {
	plan := chaos.Rounds(3, 40, acts)
	small := plan.Shrink(func(p chaos.Plan) bool {
		return slices.Contains(p.Faults, plan.Faults[7]) && slices.Contains(p.Faults, plan.Faults[30])
	})
	if want := []chaos.Fault{plan.Faults[7], plan.Faults[30]}; !slices.Equal(small.Faults, want) {
		t.Errorf("%v; want %v", small, want)
	}
}

// TestLife: what must not happen to a task is noticed.
func TestLife(t *testing.T) {
	finished := []string{"FINISHED"}
	for _, test := range []struct {
		life chaos.Life
		good bool
	}{
		{chaos.Life{Launched: true, Starts: 1, Ends: finished, Right: finished}, true},
		{chaos.Life{Launched: true, Ends: []string{"DROPPED"}, Right: finished}, true},
		{chaos.Life{Launched: true, Starts: 1, Ends: []string{"GONE"}, Right: finished, Excused: true}, true},
		{chaos.Life{Launched: true, Starts: 1, Ends: []string{"GONE"}, Right: finished}, false},
		{chaos.Life{Launched: true, Ends: finished, Right: finished}, false},
		{chaos.Life{Launched: true, Starts: 1, Ends: finished}, false},
		{chaos.Life{Launched: true, Starts: 2, Ends: finished, Right: finished, Excused: true}, false},
		{chaos.Life{Launched: true, Starts: 1, Runs: true, Ends: finished, Right: finished}, false},
		{chaos.Life{Launched: true, Starts: 1, Ends: []string{"FINISHED", "FAILED"}, Excused: true}, false},
		{chaos.Life{Launched: true, Starts: 1, Runs: true}, false},
		{chaos.Life{Ends: finished}, false},
	} {
		if wrong := test.life.Wrong(); (wrong == "") != test.good {
			t.Errorf("%+v: %q", test.life, wrong)
		}
	}
}
