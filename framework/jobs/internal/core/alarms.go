package core

import (
	"container/heap"
	"slices"
	"time"
)

// alarm is something that has to happen at a given time. An alarm that is out of date does nothing.
type alarm struct {
	At      time.Time
	Kind    alarmKind
	SubJob  string
	Index   int
	Attempt int
}

type alarmKind uint8

const (
	pauseOver   alarmKind = iota // the pause of a slot is over
	timeOver                     // an attempt has taken too long
	lostLong                     // an attempt's agent has been silent for long enough
	proofOver                    // an attempt may have proven itself
	deadlineAt                   // deadline of the job, or of a run (its sub-job)
	runDue                       // a run of a cron job is due
	gangPause                    // a gang may begin anew
	unclaimed                    // a slot's agent was not offered for too long
	straggles                    // a task of the sub-job may be slow by now
	avoidOver                    // a slot may go again to the agent that it avoids
	progressDue                  // a change may have made no progress for too long
)

// alarms is a heap, ordered by time.
type alarms []alarm

// set adds an alarm.
func (a *alarms) set(one alarm) { heap.Push((*byTime)(a), one) }

// drop removes all alarms of these kinds.
func (a *alarms) drop(kinds ...alarmKind) {
	*a = slices.DeleteFunc(*a, func(one alarm) bool { return slices.Contains(kinds, one.Kind) })
	heap.Init((*byTime)(a))
}

// next returns when the first alarm is due; zero: there is none.
func (a alarms) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].At
}

// due removes and returns the first alarm that is due.
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
