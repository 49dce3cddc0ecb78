package settings

import (
	"testing"
	"time"
)

func TestMoments(t *testing.T) {
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 3, 1, 14, 3, 30, 0, zone)
	for _, test := range []struct{ text, before, after string }{
		{"now", "2026-03-01T14:03:30+02:00", "2026-03-01T14:03:30+02:00"},
		{"30m", "2026-03-01T13:33:30+02:00", "2026-03-01T14:33:30+02:00"},
		{"14:00", "2026-03-01T14:00:00+02:00", "2026-03-02T14:00:00+02:00"},
		{"22:00", "2026-02-28T22:00:00+02:00", "2026-03-01T22:00:00+02:00"},
		{"2026-01-02T14:00", "2026-01-02T14:00:00+02:00", "2026-01-02T14:00:00+02:00"},
		{"2026-01-02", "2026-01-02T00:00:00+02:00", "2026-01-02T00:00:00+02:00"},
		{"2026-12-01T22:00:00Z", "2026-12-01T22:00:00Z", "2026-12-01T22:00:00Z"},
		{"-30m", "", ""}, {"tomorrow", "", ""}, {"25:00", "", ""}, {"", "", ""},
	} {
		for want, read := range map[string]func(string, time.Time) (time.Time, error){test.before: Before, test.after: After} {
			at, err := read(test.text, now)
			if got := at.Format(time.RFC3339); (err == nil) != (want != "") || err == nil && got != want {
				t.Errorf("%q is %s, %v; want %q", test.text, got, err, want)
			}
		}
	}
}
