// Package accounting counts for how long who has held how much, what agents have measured of it, and how tasks have
// ended, since the registry's last record of that. A change of what is held costs as much as it has kinds of resources,
// however much is held besides. It decides nothing, and knows no tasks: whoever holds something has a place in an
// account. (Protocol rule R80.)
//
// Three parts of time follow each other. What was used until some moment is in the registry, what was used until a
// later one is proposed or about to be, and since then the accounts are open. When an account is closed, what was held
// in it until then becomes a row of the hour in which it was opened. So a leader closes them with each hour.
//
// A new leader counts what a leader before it could not record: whatever an agent reports counts from the last record
// on, or from its launch, if that was later. See Began.
package accounting

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry/spent"
)

const (
	// Every is how long a record waits at most while anything is held.
	Every = time.Minute
	// AtLeast is the least time between two records.
	AtLeast = time.Second
	// EndsMax is how many tasks end until a record is made sooner. Agents remember more of the tasks that have ended,
	// and tell them to the next leader.
	EndsMax = 500
	// BackMax bounds for how long a new leader counts what was held before it led.
	BackMax = 24 * time.Hour
)

// Accounts is what one leader counts.
type Accounts struct {
	led    time.Time // when the leader began
	opened time.Time // when the accounts were opened
	of     map[spent.Key]*Account
	ended  int // tasks that have ended since then
	hours  hours
	all    hours          // closed since the leader began, as one hour
	sent   []spent.Period // proposed, and not committed yet; nil: nothing is
	// until is until when earlier leaders have recorded what agents held; zero: never.
	until time.Time
}

// hours has what is closed and not proposed yet, by the seconds since 1970 at which an hour begins.
type hours map[int64]map[spent.Key]spent.Row

// Account is of one key.
type Account struct {
	key   spent.Key
	name  string
	users int // how many hold something in it
	sums  []sum
	// What agents have measured, in thousandths times a millisecond.
	cpus, mem int64
	ends      []spent.Ends
}

// sum counts one resource. What is held is in thousandths, and times are in milliseconds. What was held since the
// account was opened is held times the time until now, less what was not held all that time.
type sum struct {
	resource   string
	held, less int64
}

// Began returns the accounts of a leader that begins now, with what the registry has by then.
func Began(now, until time.Time) *Accounts {
	return &Accounts{led: now, opened: now, of: make(map[spent.Key]*Account), hours: make(hours), all: make(hours), until: until}
}

// Of returns the account of a key; if there are too many, one that sums several keys.
func (a *Accounts) Of(key spent.Key, name string, now time.Time) *Account {
	if account := a.of[key]; account != nil {
		return account
	}
	if len(a.of) == 0 {
		a.opened, a.ended = now, 0
	}
	key = key.Within(len(a.of), func(k spent.Key) bool { return a.of[k] != nil })
	account := a.of[key]
	if account == nil {
		account = &Account{key: key, name: name}
		a.of[key] = account
	}
	return account
}

// Hold counts resources as held in the account from now on.
func (a *Accounts) Hold(in *Account, resources api.Resources, now time.Time) {
	in.users++
	at := now.Sub(a.opened).Milliseconds()
	for _, item := range resources.Items() {
		if item.Scalar > 0 {
			s := in.sumOf(item.Name)
			s.held += int64(item.Scalar)
			s.less += int64(item.Scalar) * at
		}
	}
}

// Release ends what Hold has begun.
func (a *Accounts) Release(in *Account, resources api.Resources, now time.Time) {
	in.users--
	at := now.Sub(a.opened).Milliseconds()
	for _, item := range resources.Items() {
		if item.Scalar > 0 {
			s := in.sumOf(item.Name)
			s.held -= int64(item.Scalar)
			s.less -= int64(item.Scalar) * at
		}
	}
}

// HeldBefore counts resources that were held before the leader knew.
func (a *Accounts) HeldBefore(in *Account, resources api.Resources, from, to time.Time) {
	from, to = from.Round(0), to.Round(0)
	var held spent.Row // at each moment
	for _, item := range resources.Items() {
		if item.Scalar > 0 {
			held = held.Plus(spent.Row{Sums: []spent.Sum{{Resource: item.Name, Held: uint64(item.Scalar)}}})
		}
	}
	for from.Before(to) {
		hour := spent.Hour(from)
		span := min(to.Sub(from), hour.End().Sub(from))
		row := spent.Row{Key: in.key, Name: in.name, Sums: slices.Clone(held.Sums)}
		for i := range row.Sums {
			row.Sums[i].Held = row.Sums[i].Held * uint64(span.Milliseconds()) / 1000
		}
		a.add(hour.Begin, row)
		from = from.Add(span)
	}
}

// Unrecorded returns from when on something counts that a leader before this one has seen, or could have: since the
// last record, since it began, but never longer ago than BackMax.
func (a *Accounts) Unrecorded(since time.Time) time.Time {
	from := a.led.Round(0).Add(-BackMax)
	for _, at := range []time.Time{a.until, since} {
		if at.After(from) {
			from = at
		}
	}
	return from
}

// Use counts what was measured of processors and memory over a time.
func (a *Accounts) Use(in *Account, measured api.Usage, span time.Duration) {
	in.cpus += int64(measured.CPU) * span.Milliseconds()
	in.mem += int64(measured.Mem) * span.Milliseconds()
}

// End counts the end of a task. It reports whether the accounts are to be closed sooner now.
func (a *Accounts) End(in *Account, state api.TaskState) (sooner bool) {
	a.ended++
	sooner = a.ended == EndsMax
	for i := range in.ends {
		if in.ends[i].State == state {
			in.ends[i].Count++
			return sooner
		}
	}
	in.ends = append(in.ends, spent.Ends{State: state, Count: 1})
	return sooner
}

// sumOf returns the sum of a resource.
func (in *Account) sumOf(resource string) *sum {
	for i := range in.sums {
		if in.sums[i].resource == resource {
			return &in.sums[i]
		}
	}
	in.sums = append(in.sums, sum{resource: resource})
	return &in.sums[len(in.sums)-1]
}

// IsOpen reports whether there is anything to close or to propose.
func (a *Accounts) IsOpen() bool { return len(a.of) > 0 || len(a.hours) > 0 }

// Due returns when the accounts are to be closed: after a while, sooner if many tasks have ended; and by the wall clock,
// when the hour is over.
func (a *Accounts) Due() (next, hour time.Time) {
	next = a.opened.Add(Every)
	if a.ended >= EndsMax {
		next = a.opened.Add(AtLeast)
	}
	return next, spent.Hour(a.opened).End()
}

// Close closes all accounts, and opens those again that somebody uses.
func (a *Accounts) Close(now time.Time) {
	hour := spent.Hour(a.opened).Begin
	for _, row := range a.rows(now) {
		a.add(hour, row)
	}
	for key, in := range a.of { // order: irrelevant because each is opened alone
		in.reopen(now.Sub(a.opened))
		if in.users == 0 {
			delete(a.of, key)
		}
	}
	a.opened, a.ended = now, 0
}

// rows returns what was used since the accounts were opened.
func (a *Accounts) rows(now time.Time) []spent.Row {
	var all []spent.Row
	for _, key := range slices.SortedFunc(maps.Keys(a.of), spent.Key.Compare) {
		if row := a.of[key].row(now.Sub(a.opened)); len(row.Sums)+len(row.Ends) > 0 {
			all = append(all, row)
		}
	}
	return all
}

// row returns what was held and used since the account was opened, until some time after that.
func (in *Account) row(after time.Duration) spent.Row {
	row := spent.Row{Key: in.key, Name: in.name}
	add := func(resource string, held, used int64) {
		if held > 0 || used > 0 {
			row = row.Plus(spent.Row{Sums: []spent.Sum{{Resource: resource, Held: uint64(max(held, 0) / 1000), Used: uint64(max(used, 0) / 1000)}}})
		}
	}
	for _, s := range in.sums {
		add(s.resource, s.at(after), 0)
	}
	add("cpus", 0, in.cpus)
	add("mem", 0, in.mem)
	for _, ends := range in.ends {
		row = row.Plus(spent.Row{Ends: []spent.Ends{ends}})
	}
	return row
}

// at returns for how long how much was held.
func (s sum) at(after time.Duration) int64 { return s.held*after.Milliseconds() - s.less }

// reopen begins anew, with what was less than the unit of a row.
func (in *Account) reopen(after time.Duration) {
	kept := in.sums[:0]
	for _, s := range in.sums {
		if s.less = -(s.at(after) % 1000); s.held > 0 || s.less != 0 {
			kept = append(kept, s)
		}
	}
	in.sums, in.ends = kept, nil
	in.cpus, in.mem = rest(in.cpus), rest(in.mem)
}

// rest returns what a row does not have of a measured amount. What is less than nothing is made up for later.
func rest(used int64) int64 {
	if used > 0 {
		return used % 1000
	}
	return used
}

// add adds a row to a closed hour, and to all of them.
func (a *Accounts) add(hour time.Time, row spent.Row) {
	a.hours.add(hour, row)
	all := a.all[0]
	row.Key = row.Within(len(all), func(k spent.Key) bool {
		_, is := all[k]
		return is
	})
	a.all.add(time.Unix(0, 0), row)
}

// Led returns the rows of all that was counted since the leader began, until now.
func (a *Accounts) Led(now time.Time) []spent.Row {
	led := spent.Period{}
	for _, period := range a.all.periods() {
		led = period
	}
	return led.With(a.rows(now)...).Rows
}

// add adds a row to an hour.
func (h hours) add(begin time.Time, row spent.Row) {
	rows := h[begin.Unix()]
	if rows == nil {
		rows = make(map[spent.Key]spent.Row)
		h[begin.Unix()] = rows
	}
	before, is := rows[row.Key]
	if !is {
		before = spent.Row{Key: row.Key, Name: row.Name}
	}
	rows[row.Key] = before.Plus(row)
}

// periods returns the hours in order.
func (h hours) periods() []spent.Period {
	var all []spent.Period
	for _, begin := range slices.Sorted(maps.Keys(h)) {
		period := spent.Hour(time.Unix(begin, 0))
		for _, key := range slices.SortedFunc(maps.Keys(h[begin]), spent.Key.Compare) {
			period.Rows = append(period.Rows, h[begin][key])
		}
		all = append(all, period)
	}
	return all
}

// recordBytes is about how large a record may be.
const recordBytes = 512 << 10

// Send returns what is closed and not proposed yet, as far as it fits into a record, and takes it as proposed. It
// returns nil while the last proposal has no answer, or when there is nothing.
func (a *Accounts) Send() []spent.Period {
	if a.sent != nil {
		return nil
	}
	bytes := 0
	for _, hour := range a.hours.periods() {
		if bytes += hour.Bytes(); bytes > recordBytes && a.sent != nil {
			break
		}
		a.sent = append(a.sent, hour)
		delete(a.hours, hour.Begin.Unix())
	}
	return a.sent
}

// Closed returns until when the accounts are closed, by the wall clock.
func (a *Accounts) Closed() time.Time { return a.opened.Round(0).UTC() }

// Settled says that the registry has answered the proposal.
func (a *Accounts) Settled() { a.sent = nil }

// Added returns the registry's book with everything that is not in it yet, as it is now. It changes nothing.
func (a *Accounts) Added(book spent.Book, now time.Time) spent.Book {
	more := append(slices.Clone(a.sent), a.hours.periods()...)
	if open := a.rows(now); len(open) > 0 {
		hour := spent.Hour(a.opened)
		hour.Rows = open
		more = append(more, hour)
	}
	return book.With(now.Round(0).UTC(), more...)
}
