package keeper

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"

	"github.com/tenderhq/tender/framework/internal/jobs/core"
)

// line is a queue of jobs that have something waiting: the highest priority first, and among equals the job with the
// fewest tasks.
type line []*want

func byTurn(a, b *want) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.busy, b.busy), cmp.Compare(a.name, b.name))
}

// plain reports whether the ask differs in nothing from others of its shape, so that if one of them finds no room, none
// does.
func plain(ask core.Ask) bool {
	return !ask.Gang && !ask.Copy && !ask.Avoids && ask.Task.Spread == "" && len(ask.Task.Where) == 0 && ask.Task.Constraint == ""
}

func (w *wants) enterLine(want *want) {
	list := w.lines[want.line]
	at, _ := slices.BinarySearchFunc(list, want, byTurn)
	w.lines[want.line] = slices.Insert(list, at, want)
}

func (w *wants) leaveLine(want *want) {
	list := w.lines[want.line]
	at, _ := slices.BinarySearchFunc(list, want, byTurn)
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(w.lines, want.line)
		return
	}
	w.lines[want.line] = list
}

func (w *wants) moveInLine(want *want, busy int) {
	if want.busy != busy {
		w.leaveLine(want)
		want.busy = busy
		w.enterLine(want)
	}
}

// turns yields each waiting job when it is its turn. If the caller marks the shape of a line as full, the rest of that
// line is skipped. During a job's turn only that job may change.
func (w *wants) turns(full map[string]bool) iter.Seq[*want] {
	return func(yield func(*want) bool) {
		var first heads
		for key, list := range w.lines { // order: irrelevant because a heap is made of them
			h := &head{key: key, want: list[0]}
			if key == "" {
				h.rest = slices.Clone(list[1:])
			}
			first = append(first, h)
		}
		heap.Init(&first)
		seen := make(map[string]bool)
		for len(first) > 0 {
			at := first[0]
			seen[at.want.name] = true
			if !yield(at.want) {
				return
			}
			if at.goOn(w.lines, full, seen) {
				heap.Fix(&first, 0)
			} else {
				heap.Pop(&first)
			}
		}
	}
}

// head is the job whose turn it is in a line.
type head struct {
	key  string
	want *want
	rest line // the jobs behind it, in the line of jobs that are looked at one by one
}

// goOn moves to the next job in the line; false: there is none.
func (h *head) goOn(lines map[string]line, full, seen map[string]bool) bool {
	behind := h.rest
	if h.key != "" {
		if full[h.key] {
			return false
		}
		behind = lines[h.key]
	}
	for i, want := range behind {
		if !seen[want.name] {
			h.want, h.rest = want, behind[i+1:]
			return true
		}
	}
	return false
}

// heads is a heap of heads, ordered by whose turn is next.
type heads []*head

// Len implements heap.Interface, as do the methods below.
func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return byTurn(h[i].want, h[j].want) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a head at the end.
func (h *heads) Push(x any) { *h = append(*h, x.(*head)) }

// Pop removes and returns the last head.
func (h *heads) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	*h = (*h)[:last]
	return popped
}
