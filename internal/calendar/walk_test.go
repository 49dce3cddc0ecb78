package calendar_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/calendar"
)

// shown is what a clock on the wall shows.
type shown struct {
	month             time.Month
	day, hour, minute int
	weekday           time.Weekday
}

func shownBy(wall time.Time) shown {
	_, month, day := wall.Date()
	return shown{month, day, wall.Hour(), wall.Minute(), wall.Weekday()}
}

// walked are schedules, each with the same thing said once more: what a clock on the wall shows when it is due.
var walked = []struct {
	schedule  string
	everyHour bool
	due       func(w shown) bool
}{
	{"0 0 * * *", false, func(w shown) bool { return w.hour == 0 && w.minute == 0 }},
	{"30 2 * * *", false, func(w shown) bool { return w.hour == 2 && w.minute == 30 }},
	{"15 1-3 * * *", false, func(w shown) bool { return w.hour >= 1 && w.hour <= 3 && w.minute == 15 }},
	{"0 */2 * * *", false, func(w shown) bool { return w.hour%2 == 0 && w.minute == 0 }},
	{"45 * * * *", true, func(w shown) bool { return w.minute == 45 }},
	{"*/20 * * * sun", true, func(w shown) bool { return w.minute%20 == 0 && w.weekday == time.Sunday }},
	{"0 9 1,15 * 5", false, func(w shown) bool {
		return w.hour == 9 && w.minute == 0 && (w.day == 1 || w.day == 15 || w.weekday == time.Friday)
	}},
	{"5 0 */2 3,9-10 sat,7", false, func(w shown) bool {
		return w.hour == 0 && w.minute == 5 && w.day%2 == 1 && (w.month == 3 || w.month == 9 || w.month == 10) &&
			(w.weekday == time.Saturday || w.weekday == time.Sunday)
	}},
	{"0 0 29 3 *", false, func(w shown) bool { return w.hour == 0 && w.minute == 0 && w.day == 29 && w.month == 3 }},
	{"59 23 31 12 *", false, func(w shown) bool { return w.hour == 23 && w.minute == 59 && w.day == 31 && w.month == 12 }},
}

// TestNextIsWhatAWalkFinds walks through five years minute by minute, in ten zones that treat their clocks in different
// ways, and with TENDER_TEST_LONG in all that there are. It looks at the clock alone, and knows nothing of changes
// before it meets them.
func TestNextIsWhatAWalkFinds(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Africa/Cairo", "Africa/Casablanca", "Atlantic/Azores",
		"Australia/Lord_Howe", "Asia/Kathmandu", "Antarctica/Troll"}
	years := 1
	if os.Getenv("TENDER_TEST_LONG") != "" {
		zones, years = allZones(t), 5
	}
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			walk(t, zone, years)
		})
	}
}

// TestADayThatIsLeftOut is the largest change of a clock: where the date line moved, a day was left out.
func TestADayThatIsLeftOut(t *testing.T) {
	got, err := calendar.Next("0 12 30 12 *", "Pacific/Apia", time.Date(2011, 12, 1, 0, 0, 0, 0, time.UTC))
	if want := "2011-12-31T12:00:00+14:00"; err != nil || got.Format(time.RFC3339) != want {
		t.Errorf("due at %v, %v; wanted %s", got, err, want)
	}
}

func walk(t *testing.T, zone string, years int) {
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	next := make([]time.Time, len(walked))
	for i, one := range walked {
		next[i] = nextOf(t, one.schedule, zone, begin.Add(-time.Second))
	}
	wallAt := func(at time.Time) time.Time { // as if the clock showed UTC
		_, ahead := at.In(place).Zone()
		return at.Add(time.Duration(ahead) * time.Second)
	}
	latest := wallAt(begin.Add(-time.Minute)) // the latest that the clock has shown
	var late []time.Time                      // what the clock has left out, and would show from now on
	for at := begin; at.Before(begin.AddDate(years, 0, 0)); at = at.Add(time.Minute) {
		wall := wallAt(at)
		for left := latest.Add(time.Minute); left.Before(wall); left = left.Add(time.Minute) {
			late = append(late, left)
		}
		again := !wall.After(latest)
		if !again {
			latest = wall
		}
		now, before := shownBy(wall), shown{hour: -1, minute: -1} // that is none of any schedule
		if len(late) > 0 {
			before = shownBy(late[0])
		}
		for i, one := range walked {
			due := one.due(now) && (one.everyHour || !again) || !one.everyHour && one.due(before)
			if due != next[i].Equal(at) {
				t.Fatalf("%q at %s: due is %v, but Next says %s", one.schedule, at.In(place), due, next[i])
			}
			if due {
				next[i] = nextOf(t, one.schedule, zone, at)
			}
		}
		if len(late) > 0 {
			late = late[1:]
		}
	}
}

func nextOf(t *testing.T, schedule, zone string, after time.Time) time.Time {
	t.Helper()
	next, err := calendar.Next(schedule, zone, after)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// allZones returns the zones of the zone database that comes with Go, each under one of its names.
func allZones(t *testing.T) (zones []string) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	type content struct {
		sum  uint32
		size uint64
	}
	known := make(map[content]bool)
	for _, file := range files.File {
		is := content{file.CRC32, file.UncompressedSize64}
		if !strings.HasSuffix(file.Name, "/") && !known[is] {
			known[is] = true
			zones = append(zones, file.Name)
		}
	}
	if len(zones) < 300 {
		t.Fatalf("the zone database has %d zones", len(zones))
	}
	return zones
}
