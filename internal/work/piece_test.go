package work_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/work"
)

// task is an attempt as a face has it.
type task struct {
	work.Attempt
	other bool // it runs another version than the one that is wanted
}

func attempt(number int, state api.TaskState, change func(*task)) *task {
	a := &task{Attempt: work.Attempt{Number: number, Task: api.TaskID("t" + string(rune('0'+number))), Agent: "a", Since: start}}
	a.Hear(api.Status{State: state}, false, start)
	if change != nil {
		change(a)
	}
	return a
}

var start = time.Unix(1000, 0)

func pieceOf(attempts ...*task) *work.Piece[*task] {
	p := &work.Piece[*task]{}
	for _, a := range attempts {
		p.Add(a)
	}
	return p
}

// TestWhoStays: the number of the attempt that goes on, of work that ends and of a service, whatever the order in which
// they became known.
func TestWhoStays(t *testing.T) {
	ill := func(a *task) { a.Hear(api.Status{State: api.TaskRunning, Healthy: new(bool)}, false, start) }
	other := func(a *task) { a.other = true }
	copied := func(a *task) { a.Copying = work.IsCopy }
	for _, c := range []struct {
		name         string
		attempts     func() []*task
		work, served int // 0: none
		ends         int // how many are to be ended
	}{
		{"both run", func() []*task { return []*task{attempt(2, api.TaskRunning, nil), attempt(1, api.TaskRunning, nil)} }, 1, 2, 1},
		{"the fresh one has not begun", func() []*task { return []*task{attempt(1, api.TaskRunning, nil), attempt(2, api.TaskStaging, nil)} }, 1, 1, 1},
		{"the old one is not healthy", func() []*task { return []*task{attempt(1, api.TaskRunning, ill), attempt(2, api.TaskRunning, nil)} }, 1, 2, 1},
		{"neither is healthy", func() []*task { return []*task{attempt(1, api.TaskRunning, ill), attempt(2, api.TaskRunning, ill)} }, 1, 1, 1},
		{"the old one runs another version", func() []*task { return []*task{attempt(1, api.TaskRunning, other), attempt(2, api.TaskStaging, nil)} }, 2, 2, 1},
		{"three", func() []*task {
			return []*task{attempt(2, api.TaskStaging, nil), attempt(1, api.TaskRunning, nil), attempt(3, api.TaskRunning, nil)}
		}, 1, 3, 2},
		{"alone", func() []*task { return []*task{attempt(2, api.TaskStaging, nil)} }, 2, 2, 0},
		{"with a copy", func() []*task { return []*task{attempt(1, api.TaskRunning, nil), attempt(2, api.TaskRunning, copied)} }, 1, 1, 0},
		{"nobody", func() []*task { return []*task{attempt(1, api.TaskRunning, func(a *task) { a.Missed = true })} }, 0, 0, 0},
	} {
		for service, want := range map[bool]int{false: c.work, true: c.served} {
			goesOn, ends := pieceOf(c.attempts()...).Stays(service, func(a *task) bool { return !a.other })
			if number := map[bool]func() int{true: func() int { return 0 }, false: func() int { return goesOn.Number }}[goesOn == nil](); number != want || len(ends) != c.ends {
				t.Errorf("%s, service %t: %d goes on and %d end, want %d and %d", c.name, service, number, len(ends), want, c.ends)
			}
			for _, a := range ends {
				if a == goesOn {
					t.Errorf("%s: %d goes on and ends", c.name, a.Number)
				}
			}
		}
	}
}

// TestWhatIsHeard: since when an attempt runs, is up and is silent.
func TestWhatIsHeard(t *testing.T) {
	a := attempt(1, api.TaskStaging, nil)
	yes, no := true, false
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for i, c := range []struct {
		status              api.Status
		checked             bool
		running, up, silent time.Time
	}{
		1: {api.Status{State: api.TaskRunning}, true, at(1), time.Time{}, time.Time{}},
		2: {api.Status{State: api.TaskRunning, Healthy: &yes}, true, at(1), at(2), time.Time{}},
		3: {api.Status{State: api.TaskRunning, Healthy: &yes}, true, at(1), at(2), time.Time{}},
		4: {api.Status{State: api.TaskUnreachable}, true, at(1), time.Time{}, at(4)},
		5: {api.Status{State: api.TaskUnreachable}, true, at(1), time.Time{}, at(4)},
		6: {api.Status{State: api.TaskRunning}, false, at(1), at(6), time.Time{}},
		7: {api.Status{State: api.TaskRunning, Healthy: &no}, false, at(1), time.Time{}, time.Time{}},
	} {
		if i == 0 {
			continue
		}
		if a.Hear(c.status, c.checked, at(i)); a.Running != c.running || a.Up != c.up || a.Silent != c.silent {
			t.Errorf("%d: runs since %v, up since %v, silent since %v; want %+v", i, a.Running, a.Up, a.Silent, c)
		}
	}
	if !a.Ends(work.Overdue) || a.Ends(work.Unwanted) || a.Ends(work.Overdue) || a.Kill != work.Unwanted || a.Holds() {
		t.Errorf("the first kill is told, and the strongest reason stays: %+v", a)
	}
}

// TestTheEndOfACopy: a copy that ends badly counts for nothing as long as the other goes on; when the other has ended, the
// copy is the work.
func TestTheEndOfACopy(t *testing.T) {
	rules := work.Rules{Attempts: 2, Backoff: work.Backoff{First: time.Second, Max: time.Minute}}
	copied := func(a *task) { a.Copying = work.IsCopy }
	failed := func(task api.TaskID) api.Status { return api.Status{Task: task, State: api.TaskFailed} }
	p := pieceOf(attempt(1, api.TaskRunning, nil), attempt(2, api.TaskRunning, copied))
	if end := p.End(p.Of("t2"), failed("t2"), start, rules); end.Verdict != work.Ignored || p.Failures != 0 || !p.Held() {
		t.Errorf("the copy: %+v, %+v", end, p.Tally)
	}
	p = pieceOf(attempt(1, api.TaskRunning, nil), attempt(2, api.TaskRunning, copied))
	if end := p.End(p.Of("t1"), failed("t1"), start, rules); end.Verdict != work.Badly || end.GivenUp || !p.Held() || p.Of("t2").IsCopy() {
		t.Errorf("the other: %+v, %+v", end, p.Of("t2"))
	}
	if end := p.End(p.Of("t2"), failed("t2"), start, rules); end.Verdict != work.Badly || !end.GivenUp || p.Held() || p.Of("t2") != nil {
		t.Errorf("what was a copy: %+v, %+v", end, p.Tally)
	}
	p = pieceOf(attempt(1, api.TaskUnreachable, func(a *task) { a.Missed = true }), attempt(2, api.TaskRunning, copied))
	if end := p.End(p.Of("t2"), failed("t2"), start, rules); end.Verdict != work.Badly {
		t.Errorf("a copy beside one that was missed: %+v", end)
	}
}

// TestAnAgentIsAvoided: after three bad ends in a row the work goes elsewhere, unless it belongs to one agent. (R62)
func TestAnAgentIsAvoided(t *testing.T) {
	for _, bound := range []bool{false, true} {
		rules := work.Rules{Bound: bound, Backoff: work.Backoff{First: time.Second, Max: 4 * time.Second}}
		p := pieceOf()
		for n := 1; n <= 4; n++ {
			a := attempt(n, api.TaskRunning, nil)
			p.Add(a)
			if p.Avoids != "" {
				t.Fatalf("attempt %d was launched and %s is avoided", n, p.Avoids)
			}
			state := map[bool]api.TaskState{true: api.TaskFailed, false: api.TaskGone}[n%2 == 0]
			p.End(a, api.Status{Task: a.Task, State: state}, start, rules)
			if avoids := p.Avoids != ""; avoids != (n >= 3 && !bound) {
				t.Errorf("bound %t: after %d bad ends %q is avoided", bound, n, p.Avoids)
			}
		}
		if most := rules.AvoidFor(); most != 4*time.Second || (work.Backoff{Max: time.Minute}).AvoidFor() != 10*time.Second {
			t.Errorf("it is avoided for %v", most)
		}
	}
}
