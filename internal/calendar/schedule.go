package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// schedule is a schedule that was read: the minutes that a clock on the wall shows when it is due.
type schedule struct {
	minutes, hours, days, months, weekdays set
	// eitherDay: both the day of the month and that of the week are restricted, and a day of either is meant. POSIX
	// says so, and every crontab does it.
	eitherDay bool
	everyHour bool
}

// set holds the numbers of a field, each as a bit.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// field is one of the five fields of a schedule.
type field struct {
	name        string
	least, most int
	words       []string // names for the numbers from least on
}

// fields are the fields in the order in which a schedule has them. Sunday is both 0 and 7.
var fields = [...]field{
	{name: "minute", most: 59},
	{name: "hour", most: 23},
	{name: "day of the month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, words: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", most: 7, words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// byWord are the schedules that have a name.
var byWord = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * sun", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
}

// parse reads a schedule.
func parse(text string) (s schedule, err error) {
	switch {
	case strings.HasPrefix(text, "@every"):
		return s, fmt.Errorf("%q has no fixed times; write minute, hour, day of the month, month and day of the week, such as \"*/15 * * * *\"", text)
	case strings.Contains(text, "TZ="):
		return s, fmt.Errorf("%q names a time zone; write that as cron.zone", text)
	case strings.HasPrefix(text, "@") && byWord[text] == "":
		return s, fmt.Errorf("%q is none of @hourly, @daily, @weekly, @monthly and @yearly; or write minute, hour, day of the month, month and day of the week",
			text)
	case byWord[text] != "":
		text = byWord[text]
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return s, fmt.Errorf("%q has %d fields; write minute, hour, day of the month, month and day of the week, such as \"30 2 * * mon-fri\"",
			text, len(parts))
	}
	for i, into := range []*set{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays} {
		if *into, err = fields[i].parse(parts[i]); err != nil {
			return s, fmt.Errorf("%q: the %s is %q: %w", text, fields[i].name, parts[i], err)
		}
	}
	if s.weekdays.has(7) {
		s.weekdays |= 1
	}
	s.eitherDay = !strings.HasPrefix(parts[2], "*") && !strings.HasPrefix(parts[4], "*")
	s.everyHour = s.hours == 1<<24-1
	return s, nil
}

// parse reads a field: a list of numbers, names, ranges and '*', the latter two with a step.
func (f field) parse(text string) (all set, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		first, last, err := f.span(span)
		if err != nil {
			return 0, err
		}
		step := 1
		if stepped {
			switch step, err = number(stepText); {
			case err != nil || step < 1:
				return 0, fmt.Errorf("%q is no step; write one such as */5", stepText)
			case first == last:
				return 0, fmt.Errorf("a step needs a range; write %d-%d/%d, or leave the step out", first, f.most, step)
			case step > last-first:
				return 0, fmt.Errorf("a step of %d leaves %d alone; write that", step, first)
			}
		}
		for n := first; n <= last; n += step {
			all |= 1 << n
		}
	}
	return all, nil
}

// span reads '*', a number, or a range.
func (f field) span(text string) (first, last int, err error) {
	if text == "*" {
		if last = f.most; f.most == 7 {
			last = 6 // so that a step does not count Sunday twice
		}
		return f.least, last, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if first, err = f.value(from); err != nil || !ranged {
		return first, first, err
	}
	if last, err = f.value(to); err != nil {
		return first, last, err
	}
	if f.most == 7 && last == 0 {
		last = 7 // a week that ends with Sunday
	}
	if first > last {
		return first, last, fmt.Errorf("the range %s ends before it begins; write two, with a comma between", text)
	}
	return first, last, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if i := slices.Index(f.words, strings.ToLower(text)); i >= 0 {
		return f.least + i, nil
	}
	n, err := number(text)
	if err != nil || n < f.least || n > f.most {
		names := ""
		if len(f.words) > 0 {
			names = fmt.Sprintf(" or %s to %s,", f.words[0], f.words[len(f.words)-1])
		}
		return 0, fmt.Errorf("%q is none; write %d to %d,%s a range such as %d-%d, or *", text, f.least, f.most, names, f.least, f.least+4)
	}
	return n, nil
}

// number reads digits alone: no sign, no space.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// nextWall returns the first minute of the schedule from one time on and before the other; the zero time: there is
// none. The times are what a clock on the wall shows, written as if it were UTC.
func (s schedule) nextWall(from, end time.Time) time.Time {
	if whole := from.Truncate(time.Minute); whole.Before(from) {
		from = whole.Add(time.Minute)
	}
	for from.Before(end) {
		year, month, day := from.Date()
		switch {
		case !s.months.has(int(month)):
			from = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.hasDay(day, from.Weekday()):
			from = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !s.hours.has(from.Hour()):
			from = time.Date(year, month, day, from.Hour()+1, 0, 0, 0, time.UTC)
		case !s.minutes.has(from.Minute()):
			from = from.Add(time.Minute)
		default:
			return from
		}
	}
	return time.Time{}
}

func (s schedule) hasDay(day int, weekday time.Weekday) bool {
	inMonth, inWeek := s.days.has(day), s.weekdays.has(int(weekday))
	if s.eitherDay {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}
