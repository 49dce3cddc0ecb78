package calendar_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/calendar"
)

// FuzzNext: whatever a schedule says, its next run is later than now, or there is none, and finding that out takes no
// time that matters.
func FuzzNext(f *testing.F) {
	for _, one := range [][2]string{
		{"*/5 * * * *", "UTC"}, {"0 3 * * 1-5", "Europe/Berlin"}, {"30 2 29 2 *", "America/New_York"}, {"0 0 31 2 *", "UTC"},
		{"@daily", "Asia/Kolkata"}, {"1-59/7 0-23 1,15 jan-dec sun", "Australia/Lord_Howe"}, {"", ""}, {"* * * *", "nowhere"},
	} {
		f.Add(one[0], one[1], int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, schedule, zone string, at int64) {
		now := time.Unix(at%(1<<33), 0)
		next, err := calendar.Next(schedule, zone, now)
		if err == nil && !next.IsZero() && !next.After(now) {
			t.Fatalf("%q in %q is due at %v, and it is %v", schedule, zone, next, now)
		}
	})
}
