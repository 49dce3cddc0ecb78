package manager

import (
	"container/heap"
	"time"
)

// wakes are the moments at which jobs want to be woken. One that is out of date wakes nobody.
type wakes []wake

type wake struct {
	at   time.Time
	name string
}

func (w *wakes) set(at time.Time, name string) { heap.Push(w, wake{at, name}) }

// due takes out the first that is due.
func (w *wakes) due(now time.Time) (name string, is bool) {
	if len(*w) == 0 || (*w)[0].at.After(now) {
		return "", false
	}
	return heap.Pop(w).(wake).name, true
}

// Len implements heap.Interface, as do the methods below.
func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w wakes) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push adds one at the end.
func (w *wakes) Push(x any) { *w = append(*w, x.(wake)) }

// Pop takes the last one.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	*w = (*w)[:last]
	return one
}
