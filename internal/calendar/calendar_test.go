package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/calendar"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ schedule, zone, after, want string }{
		{"30 2 * * *", "UTC", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z"},
		{"0 9 * * mon-fri", "America/New_York", "2026-11-20T23:00:00Z", "2026-11-23T14:00:00Z"},
		{"@daily", "Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-01T22:00:00Z"},
		// The clock is put forward from 2 to 3: what was due between is due an hour later.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		// The clock is put back from 3 to 2: half past two comes twice, and counts once,
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"},
		// but for those who want each hour.
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"@hourly", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"},
		// The clock is put forward at midnight: no day is left out, and no year.
		{"@daily", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z"},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"30 0 29 3 *", "Atlantic/Azores", "2026-01-01T00:00:00Z", "2026-03-29T01:30:00Z"},
		// It is put forward by half an hour.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:45:00Z"},
		// A day of the month and a day of the week: either is meant, unless one of them begins with a star.
		{"0 9 1,15 * 5", "UTC", "2026-11-27T12:00:00Z", "2026-12-01T09:00:00Z"},
		{"0 9 1,15 * 5", "UTC", "2026-12-01T12:00:00Z", "2026-12-04T09:00:00Z"},
		{"0 0 13 * fri", "UTC", "2026-11-01T12:00:00Z", "2026-11-06T00:00:00Z"},
		{"0 0 */2 * fri", "UTC", "2026-11-06T12:00:00Z", "2026-11-13T00:00:00Z"},
		{"0 0 29 2 */6", "UTC", "2026-11-06T12:00:00Z", "2032-02-29T00:00:00Z"},
		{"0 0 * * 5-7", "UTC", "2026-11-07T12:00:00Z", "2026-11-08T00:00:00Z"},
		{"0 0 * * Sat-Sun", "UTC", "2026-11-08T12:00:00Z", "2026-11-14T00:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := calendar.Next(c.schedule, c.zone, after)
		if err != nil || got.UTC().Format(time.RFC3339) != c.want {
			t.Errorf("%q in %s after %s: %v, %v; wanted %s", c.schedule, c.zone, c.after, got.UTC(), err, c.want)
		}
	}
}

func TestNever(t *testing.T) {
	if at, err := calendar.Next("0 0 30 2 *", "UTC", time.Unix(0, 0)); err != nil || !at.IsZero() {
		t.Errorf("the 30th of February is due at %v, %v", at, err)
	}
}

// TestWhatIsNone says what would be right.
func TestWhatIsNone(t *testing.T) {
	for _, c := range []struct{ schedule, zone, want string }{
		{"30 2 * *", "UTC", "write minute, hour"},
		{"61 2 * * *", "UTC", "the minute is \"61\": \"61\" is none; write 0 to 59"},
		{"0 -1 * * *", "UTC", "the hour is \"-1\""},
		{"0 0 0 * *", "UTC", "the day of the month is \"0\""},
		{"0 0 * foo *", "UTC", "jan to dec"},
		{"0 0 * * 8", "UTC", "sun to sat"},
		{"0 22-2 * * *", "UTC", "ends before it begins"},
		{"5/15 * * * *", "UTC", "write 5-59/15"},
		{"*/0 * * * *", "UTC", "is no step"},
		{"*/90 * * * *", "UTC", "leaves 0 alone"},
		{"0 0 L * *", "UTC", "is none"},
		{"@reboot", "UTC", "none of @hourly"},
		{"", "UTC", "write minute, hour"},
		{"@every 5m", "UTC", "*/15 * * * *"},
		{"TZ=Asia/Tokyo 30 2 * * *", "UTC", "cron.zone"},
		{"30 2 * * *", "Berlin", "Europe/Berlin"},
		{"30 2 * * *", "Local", "Europe/Berlin"},
	} {
		if _, err := calendar.Next(c.schedule, c.zone, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: %v; wanted %q", c.schedule, c.zone, err, c.want)
		}
	}
}
