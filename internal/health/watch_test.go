package health_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/health"
)

var start = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

var errIll = errors.New("no answer")

// story makes the checks of one task when they are due, with one result after the other. known says what is known after
// each: "?" nothing, "+" healthy, "-" unhealthy, "!" the task has to end.
func story(checks []api.Check, results string) (known string, at []time.Duration, w *health.Watch) {
	w = health.New(checks, start)
	for _, result := range results {
		number, _, due := w.Next()
		at = append(at, due.Sub(start))
		var err error
		if result == '-' {
			err = errIll
		}
		w.Take(number, due, err)
		switch healthy, _ := w.Healthy(); {
		case w.Failed() != "":
			known += "!"
		case healthy == nil:
			known += "?"
		case *healthy:
			known += "+"
		default:
			known += "-"
		}
	}
	return known, at, w
}

func TestWatch(t *testing.T) {
	live := api.Check{TCP: &api.TCPCheck{Port: "p"}, Interval: 2 * time.Second, Grace: 5 * time.Second, Failures: 2}
	ready := live
	ready.Readiness = true
	impatient := live
	impatient.Grace, impatient.Failures = time.Nanosecond, 1
	seldom := live
	seldom.Interval = time.Hour
	for _, test := range []struct {
		name    string
		checks  []api.Check
		results string
		want    string
	}{
		{"well from the start", []api.Check{live}, "++", "++"},
		{"its grace lets it start slowly", []api.Check{live}, "----+", "????+"},
		{"after its grace failures count", []api.Check{live}, "--------", "?????" + "?!!"},
		{"once well, the grace is over", []api.Check{live}, "+--", "++!"},
		{"a success begins the row anew", []api.Check{live}, "+-+-+--", "++++++!"},
		{"one failure is enough where one is asked for", []api.Check{impatient}, "-", "?"},
		{"ready as soon as it passes", []api.Check{ready}, "--+", "--+"},
		{"not ready only after a row of failures, and never ended", []api.Check{ready}, "+--------+", "++-------+"},
		{"both: known when each was made", []api.Check{live, ready}, "++", "?+"},
		{"both: not ready is no end", []api.Check{seldom, ready}, "+-----+", "?-----+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, at, _ := story(test.checks, test.results)
			if got != test.want {
				t.Errorf("after %s it is %s, want %s; checks were due at %v", test.results, got, test.want, at)
			}
		})
	}
}

func TestPauses(t *testing.T) {
	check := api.Check{TCP: &api.TCPCheck{Port: "p"}, Grace: 3 * time.Second, Failures: 9}
	_, at, _ := story([]api.Check{check}, "-----")
	want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 13 * time.Second}
	for i := range want {
		if at[i] != want[i] {
			t.Fatalf("a task that does not start is checked at %v, want %v", at, want)
		}
	}
	_, at, _ = story([]api.Check{check}, "-+-+")
	if at[2] != 11*time.Second || at[3] != 21*time.Second {
		t.Errorf("after its first success it is checked at %v, want every 10s", at)
	}
}

func TestWhy(t *testing.T) {
	check := api.Check{HTTP: &api.HTTPCheck{Port: "web"}, Failures: 3}
	_, _, w := story([]api.Check{check}, "+---")
	if want := "its check (GET / at port web) failed 3 times in a row: no answer"; w.Failed() != want {
		t.Errorf("it is to end because %q, want %q", w.Failed(), want)
	}
	check.Readiness = true
	_, _, w = story([]api.Check{check}, "-")
	if _, why := w.Healthy(); !strings.Contains(why, "GET / at port web") || !strings.Contains(why, "no answer") || w.Failed() != "" {
		t.Errorf("it is not ready because %q, and ends because %q", why, w.Failed())
	}
}
