package spent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func rowOf(role api.Role, principal string, framework, job int) Row {
	key := Key{role, principal, api.FrameworkID(fmt.Sprint("framework-", framework)), fmt.Sprint("job-", job)}
	return Row{Key: key, Name: "f", Sums: []Sum{{"cpus", 1000, 500}}, Ends: []Ends{{api.TaskFinished, 1}}}
}

// sums adds up what the rows hold, by role.
func sums(periods ...Period) map[api.Role]Sum {
	all := make(map[api.Role]Sum)
	for _, p := range periods {
		for _, row := range p.Rows {
			sum := all[row.Role]
			sum.Held += row.Sums[0].Held
			sum.Used += row.Sums[0].Used
			all[row.Role] = sum
		}
	}
	return all
}

// TestOthers: R81. However many there are, an hour has so many rows. What has none of its own is summed by job first, then
// by framework, then by principal, and no sum of what is told apart is less for it.
func TestOthers(t *testing.T) {
	hour := Hour(noon)
	for i := range 2000 {
		hour = hour.With(rowOf("web", "ann", i%3, i), rowOf("etl", fmt.Sprint("p", i%700), i, i))
	}
	if most := RowsMax + 3*rowsStep + 4; len(hour.Rows) > most {
		t.Errorf("it has %d rows, at most %d are allowed", len(hour.Rows), most)
	}
	for role, sum := range sums(hour) {
		if sum != (Sum{"", 2_000_000, 1_000_000}) {
			t.Errorf("role %s has %+v", role, sum)
		}
	}
	frameworks := make(map[Key]uint64)
	for _, row := range hour.Rows {
		if row.Role == "web" {
			frameworks[Key{Framework: row.Framework}] += row.Ends[0].Count
		}
	}
	if len(frameworks) != 3 || frameworks[Key{Framework: "framework-0"}] != 667 {
		t.Errorf("the frameworks that were there first have %v", frameworks)
	}
}

// TestJoined: R81. Older hours become days, the oldest days are forgotten, and what is kept has its sums. Hours in which
// nothing was held do not count, and no clock: after a jump to the next century and back all is still there.
func TestJoined(t *testing.T) {
	var book Book
	at := noon
	for range 60 * 24 {
		book = book.With(at.Add(time.Hour), Hour(at).With(rowOf("web", "ann", 1, 1)))
		at = at.Add(time.Hour)
	}
	hours, days := count(book)
	if hours > HoursMax || hours < HoursMax-24 || days < 29 || days > 31 {
		t.Errorf("of 60 days it keeps %d hours and %d days", hours, days)
	}
	if sum := sums(book.Periods...)["web"]; sum.Held != 60*24*1000 {
		t.Errorf("together they have %+v", sum)
	}
	book = book.With(at, Hour(at.AddDate(100, 0, 0)).With(rowOf("web", "ann", 1, 1)))
	book = book.With(at, Hour(noon.Add(3*time.Hour)).With(rowOf("web", "ann", 1, 1))) // of a day that is joined
	if _, after := count(book); after != days && after != days+1 || sums(book.Periods...)["web"].Held != (60*24+2)*1000 {
		t.Errorf("after the jump there are %d days, with %+v", after, sums(book.Periods...)["web"])
	}
	for range 400 * 12 {
		book = book.With(at.Add(time.Hour), Hour(at).With(rowOf("web", "ann", 1, 1)))
		at = at.Add(2 * time.Hour) // hours in which nothing is held are not kept
	}
	if hours, days := count(book); days != DaysMax || hours > HoursMax {
		t.Errorf("of 460 days it keeps %d hours and %d days", hours, days)
	}
}

// TestBytes: R81. Where rows take much, hours are joined sooner, and the oldest days go.
func TestBytes(t *testing.T) {
	var book Book
	var rows []Row
	for i := range RowsMax {
		rows = append(rows, rowOf(api.Role(strings.Repeat("r", 255)), strings.Repeat("p", 255), i, i))
	}
	full, at := Hour(noon).With(rows...), noon
	for range 30 * 24 {
		full.Begin = at
		book = book.With(at, full)
		at = at.Add(time.Hour)
	}
	bytes := 0
	for _, p := range book.Periods {
		bytes += p.Bytes()
	}
	hours, days := count(book)
	if bytes > BytesMax || bytes < BytesMax/10*8 || hours < wholeHours-24 || hours > wholeHours+24 || days < 10 || days > 28 {
		t.Errorf("%d bytes for %d hours and %d days", bytes, hours, days)
	}
}

func count(book Book) (hours, days int) {
	for _, p := range book.Periods {
		if p.Hours == 1 {
			hours++
		} else {
			days++
		}
	}
	return hours, days
}
