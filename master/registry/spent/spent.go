// Package spent sums who has held and used how much of which resource, for how long, and how tasks have ended: hour by
// hour, later day by day. Values are replaced, never edited, so whoever has one may keep it. It has no clock: what is
// old follows from what is newer, so that a clock that somebody sets makes nothing forgotten.
package spent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
)

// Bounds of what is kept. (Protocol rule R81.)
const (
	// RowsMax bounds the rows of one hour or day that tell everything apart. Further ones are summed as Others: by job
	// first, then by framework, then by principal.
	RowsMax = 256
	// rowsStep is how many more rows there may be for each of these sums.
	rowsStep = 64
	// SumsMax bounds the kinds of resources in one row. Further ones are not counted.
	SumsMax = 32
	// HoursMax bounds the hours that are kept as hours, a month. The oldest are joined to days.
	HoursMax = 30 * 24
	// DaysMax bounds the days that are kept beside these hours. The oldest are forgotten.
	DaysMax = 370
	// BytesMax bounds all rows together. Beyond it hours are joined to days sooner, then the oldest days are forgotten.
	BytesMax = 16 << 20
	// wholeHours is how many hours stay hours even then.
	wholeHours = 48
	// NameBytesMax bounds the name of a job or a framework in a row. A job with a longer name is summed as Others; a
	// longer name of a framework is cut off.
	NameBytesMax = 256
)

// Others stands for all that has no row of its own.
const Others = "(others)"

// Key says who has used something. A task that belongs to no job has the empty one.
type Key struct {
	Role      api.Role
	Principal string
	Framework api.FrameworkID
	Job       string
}

// Compare orders keys by role, principal, framework and job.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Role, other.Role), cmp.Compare(k.Principal, other.Principal),
		cmp.Compare(k.Framework, other.Framework), cmp.Compare(k.Job, other.Job))
}

// Within returns the key under which something is summed where there are so many keys already, and has says which.
func (k Key) Within(keys int, has func(Key) bool) Key {
	if len(k.Job) > NameBytesMax {
		k.Job = Others
	}
	for step := 0; step < 4 && keys >= RowsMax+step*rowsStep && !has(k); step++ {
		switch step {
		case 0:
			k.Job = othersOf(k.Job)
		case 1:
			k.Framework = Others
		case 2:
			k.Principal = othersOf(k.Principal)
		case 3:
			k.Role = Others
		}
	}
	return k
}

func othersOf(name string) string {
	if name == "" {
		return ""
	}
	return Others
}

// Row is what one of them has held and used in an hour or a day, and how its tasks have ended.
type Row struct {
	Key
	Name string // the framework's
	Sums []Sum  // by resource
	Ends []Ends // by state
}

// Sum is how much of a resource, for how long: thousandths of its unit, times a second.
type Sum struct {
	Resource string
	Held     uint64
	Used     uint64 // as agents have measured it
}

// Ends counts tasks that ended in one state.
type Ends struct {
	State api.TaskState
	Count uint64
}

// Plus returns what both have together, under the key and the name of r.
func (r Row) Plus(other Row) Row {
	r.Sums, r.Ends = slices.Clone(r.Sums), slices.Clone(r.Ends)
	for _, more := range other.Sums {
		i, is := slices.BinarySearchFunc(r.Sums, more.Resource, func(s Sum, name string) int { return cmp.Compare(s.Resource, name) })
		switch {
		case is:
			r.Sums[i].Held += more.Held
			r.Sums[i].Used += more.Used
		case len(r.Sums) < SumsMax:
			r.Sums = slices.Insert(r.Sums, i, more)
		}
	}
	for _, more := range other.Ends {
		i, is := slices.BinarySearchFunc(r.Ends, more.State, func(e Ends, state api.TaskState) int { return cmp.Compare(e.State, state) })
		if is {
			r.Ends[i].Count += more.Count
		} else {
			r.Ends = slices.Insert(r.Ends, i, more)
		}
	}
	return r
}

// bytes is about what the row takes on disk.
func (r Row) bytes() int {
	size := 32 + len(r.Role) + len(r.Principal) + len(r.Framework) + len(r.Job) + len(r.Name) + 12*len(r.Ends)
	for _, sum := range r.Sums {
		size += 24 + len(sum.Resource)
	}
	return size
}

// Period is an hour or a day, by UTC.
type Period struct {
	Begin time.Time
	Hours int   // 1 or 24
	Rows  []Row // by key
}

// Hour returns the hour in which a time is, without rows.
func Hour(at time.Time) Period { return Period{Begin: at.UTC().Truncate(time.Hour), Hours: 1} }

// End returns when the period is over.
func (p Period) End() time.Time { return p.Begin.Add(time.Duration(p.Hours) * time.Hour) }

// With returns the period with these rows added.
func (p Period) With(more ...Row) Period {
	rows := make(map[Key]Row, len(p.Rows)+len(more))
	for _, row := range p.Rows {
		rows[row.Key] = row
	}
	has := func(k Key) bool {
		_, is := rows[k]
		return is
	}
	for _, row := range more {
		row.Key = row.Within(len(rows), has)
		if row.Framework == Others {
			row.Name = Others
		}
		if len(row.Name) > NameBytesMax {
			row.Name = strings.ToValidUTF8(row.Name[:NameBytesMax], "")
		}
		if before, is := rows[row.Key]; is {
			row = before.Plus(row)
		} else {
			row = Row{Key: row.Key, Name: row.Name}.Plus(row)
		}
		rows[row.Key] = row
	}
	p.Rows = make([]Row, 0, len(rows))
	for _, key := range slices.SortedFunc(maps.Keys(rows), Key.Compare) {
		p.Rows = append(p.Rows, rows[key])
	}
	return p
}

// Book is all that is kept.
type Book struct {
	// Until is the time until when everything is counted that leaders knew of by then. It may go back when somebody
	// sets the clock.
	Until   time.Time
	Periods []Period // in order
}

// With returns the book with these hours added, which are complete until then.
func (b Book) With(until time.Time, more ...Period) Book {
	after := Book{until, slices.Clone(b.Periods)}
	for _, hour := range more {
		i, is := after.find(hour.Begin)
		if !is {
			after.Periods = slices.Insert(after.Periods, i, Hour(hour.Begin))
		}
		after.Periods[i] = after.Periods[i].With(hour.Rows...)
	}
	if len(after.Periods) > len(b.Periods) {
		after.shrink()
	}
	return after
}

// find returns the place of the period in which a time is, or where its hour belongs if there is none.
func (b Book) find(at time.Time) (place int, is bool) {
	after, _ := slices.BinarySearchFunc(b.Periods, at, func(p Period, at time.Time) int {
		if p.Begin.After(at) {
			return 1
		}
		return -1
	})
	if after > 0 && b.Periods[after-1].End().After(at) {
		return after - 1, true
	}
	return after, false
}

// shrink joins old hours to days and forgets old days, until the book is within its bounds.
func (b *Book) shrink() {
	hours, bytes := 0, 0
	for _, p := range b.Periods {
		bytes += p.Bytes()
		if p.Hours == 1 {
			hours++
		}
	}
	for {
		switch days := len(b.Periods) - hours; {
		case hours > HoursMax, bytes > BytesMax && hours > wholeHours:
			joined, less := b.joinOldest()
			hours, bytes = hours-joined, bytes-less
		case days > DaysMax, bytes > BytesMax && len(b.Periods) > wholeHours:
			if b.Periods[0].Hours == 1 {
				hours--
			}
			bytes -= b.Periods[0].Bytes()
			b.Periods = b.Periods[1:]
		default:
			return
		}
	}
}

// joinOldest joins the hours of the oldest day that has hours. It returns how many they were, and how many bytes fewer
// there are.
func (b *Book) joinOldest() (hours, less int) {
	from := slices.IndexFunc(b.Periods, func(p Period) bool { return p.Hours == 1 })
	day := Period{Begin: b.Periods[from].Begin.Truncate(24 * time.Hour), Hours: 24}
	var rows []Row
	for _, p := range b.Periods[from:] {
		if p.Hours != 1 || !p.Begin.Before(day.End()) {
			break
		}
		rows = append(rows, p.Rows...)
		hours++
		less += p.Bytes()
	}
	day = day.With(rows...)
	b.Periods = slices.Replace(b.Periods, from, from+hours, day)
	return hours, less - day.Bytes()
}

// Bytes is about what the period takes on disk.
func (p Period) Bytes() int {
	size := 32
	for _, row := range p.Rows {
		size += row.bytes()
	}
	return size
}
