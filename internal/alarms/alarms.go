// Package alarms keeps events that are due at certain times. The earliest comes first, and of those at equal times the
// one that was set first.
//
// It has no clock: the caller says what time it is. Alarms are plain data, if what they are about is.
package alarms

import (
	"container/heap"
	"slices"
	"time"
)

// Alarm is one moment at which something is due. It lives with whom it concerns, and setting it again moves it.
type Alarm[W any] struct {
	At    time.Time // as it was set last
	What  W
	order uint64 // of setting
	place int    // in the heap from 1; 0: it is not set
}

// Of is an alarm that is not set.
func Of[W any](what W) *Alarm[W] { return &Alarm[W]{What: what} }

// IsSet says whether it is still to come. There may be no alarm.
func (a *Alarm[W]) IsSet() bool { return a != nil && a.place != 0 }

// Alarms are those that are set. The zero value has none.
type Alarms[W any] struct {
	byTime byTime[W]
	count  uint64 // of all that were set so far
}

// Len is how many are set.
func (a *Alarms[W]) Len() int { return len(a.byTime) }

// Set sets an alarm, or moves one that is set.
func (a *Alarms[W]) Set(alarm *Alarm[W], at time.Time) {
	a.count++
	alarm.At, alarm.order = at, a.count
	if alarm.place == 0 {
		heap.Push(&a.byTime, alarm)
	} else {
		heap.Fix(&a.byTime, alarm.place-1)
	}
}

// Add sets a new alarm.
func (a *Alarms[W]) Add(at time.Time, what W) *Alarm[W] {
	alarm := Of(what)
	a.Set(alarm, at)
	return alarm
}

// Clear takes an alarm back. One that is not set stays so, and there may be none.
func (a *Alarms[W]) Clear(alarm *Alarm[W]) {
	if alarm.IsSet() {
		heap.Remove(&a.byTime, alarm.place-1)
	}
}

// Next is when the first one is due, zero: none is set.
func (a *Alarms[W]) Next() time.Time {
	if len(a.byTime) == 0 {
		return time.Time{}
	}
	return a.byTime[0].At
}

// Due takes out the first one, if it is due.
func (a *Alarms[W]) Due(now time.Time) (what W, is bool) {
	if len(a.byTime) == 0 || a.byTime[0].At.After(now) {
		return what, false
	}
	first := a.byTime[0]
	a.Clear(first)
	return first.What, true
}

// Shift moves all those that are about what the function names.
func (a *Alarms[W]) Shift(by time.Duration, moves func(what W) bool) {
	for _, alarm := range a.byTime {
		if moves(alarm.What) {
			alarm.At = alarm.At.Add(by)
		}
	}
	heap.Init(&a.byTime)
}

// Remove takes back all those that are about what the function names.
func (a *Alarms[W]) Remove(names func(what W) bool) {
	for _, alarm := range slices.Clone(a.byTime) {
		if names(alarm.What) {
			a.Clear(alarm)
		}
	}
}

// byTime is a heap.
type byTime[W any] []*Alarm[W]

// Len implements heap.Interface, as do the methods below.
func (h byTime[W]) Len() int { return len(h) }

// Less says which is due first.
func (h byTime[W]) Less(i, j int) bool {
	if h[i].At.Equal(h[j].At) {
		return h[i].order < h[j].order
	}
	return h[i].At.Before(h[j].At)
}

// Swap changes two.
func (h byTime[W]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push adds one at the end.
func (h *byTime[W]) Push(x any) {
	alarm := x.(*Alarm[W])
	*h = append(*h, alarm)
	alarm.place = len(*h)
}

// Pop takes the last one.
func (h *byTime[W]) Pop() any {
	last := len(*h) - 1
	alarm := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	alarm.place = 0
	return alarm
}
