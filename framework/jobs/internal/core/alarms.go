package core

import (
	"container/heap"
	"time"
)

// alarm is something that time alone brings about. One that is out of date rings for nothing.
type alarm struct {
	At      time.Time
	Kind    alarmKind
	SubJob  string
	Index   int
	Attempt int
}

type alarmKind uint8

const (
	pauseOver  alarmKind = iota // of a slot
	timeOver                    // of an attempt
	lostLong                    // an attempt's agent has been silent for long enough
	proofOver                   // of an attempt
	deadlineAt                  // of the job, or of a run of it: its sub-job
	runDue                      // of a cron job
	gangPause                   // a gang may begin anew
	unclaimed                   // a slot's agent was not offered
	straggles                   // a task of the sub-job may be slow
)

// alarms are a heap by time.
type alarms []alarm

// set adds an alarm.
func (a *alarms) set(one alarm) { heap.Push((*byTime)(a), one) }

// next is when the first one is due; zero: there is none.
func (a alarms) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].At
}

// due takes out the first one that is due.
func (a *alarms) due(now time.Time) (one alarm, is bool) {
	if len(*a) == 0 || (*a)[0].At.After(now) {
		return one, false
	}
	return heap.Pop((*byTime)(a)).(alarm), true
}

type byTime alarms

func (a byTime) Len() int           { return len(a) }
func (a byTime) Less(i, j int) bool { return a[i].At.Before(a[j].At) }
func (a byTime) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *byTime) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *byTime) Pop() any {
	last := len(*a) - 1
	one := (*a)[last]
	*a = (*a)[:last]
	return one
}
