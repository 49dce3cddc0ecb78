package taskset

import (
	"container/heap"
	"time"
)

// alarm is something that is due at a time.
type alarm struct {
	at    time.Time
	ring  func(now time.Time)
	index int // in the heap; -1: not in it
}

// alarms is a heap, the next one first.
type alarms []*alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *alarms) Push(x any) {
	one := x.(*alarm)
	one.index = len(*a)
	*a = append(*a, one)
}

func (a *alarms) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	last.index = -1
	return last
}

func (a *alarms) set(at time.Time, ring func(now time.Time)) *alarm {
	one := &alarm{at: at, ring: ring}
	heap.Push(a, one)
	return one
}

// stop takes out an alarm that may have rung; nil does nothing.
func (a *alarms) stop(one *alarm) {
	if one != nil && one.index >= 0 {
		heap.Remove(a, one.index)
	}
}

// ring rings what is due.
func (a *alarms) ring(now time.Time) {
	for len(*a) > 0 && !(*a)[0].at.After(now) {
		heap.Pop(a).(*alarm).ring(now)
	}
}
