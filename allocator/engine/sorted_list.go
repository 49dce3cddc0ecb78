package engine

import "slices"

// entry is a place in an order: the smaller share first, then who waits longer since
// its last offer, so that equals take turns.
type entry struct {
	share  float64
	served uint64 // number of its last offer
	id     int32  // a member's number, or the complement of a place's
}

func (e entry) before(f entry) bool {
	if e.share != f.share {
		return e.share < f.share
	}
	if e.served != f.served {
		return e.served < f.served
	}
	return e.number() < f.number()
}

func (e entry) number() int32 {
	if e.id < 0 {
		return ^e.id
	}
	return e.id
}

// list keeps entries sorted in chunks, so that moving one costs about the same among
// ten and among ten thousand, and walking in order costs nothing.
type list struct {
	chunks [][]entry // none empty
	spare  []entry   // an emptied chunk, for the next one
	size   int
}

const chunkMax = 128

// find is where e stands or would stand.
func (l *list) find(e entry) (chunk, at int) {
	low, high := 0, len(l.chunks)
	for low < high {
		middle := (low + high) / 2
		if c := l.chunks[middle]; c[len(c)-1].before(e) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(l.chunks) {
		return low, 0
	}
	c := l.chunks[low]
	left, right := 0, len(c)
	for left < right {
		middle := (left + right) / 2
		if c[middle].before(e) {
			left = middle + 1
		} else {
			right = middle
		}
	}
	return low, left
}

func (l *list) insert(e entry) {
	l.size++
	chunk, at := l.find(e)
	if chunk == len(l.chunks) {
		if chunk == 0 || len(l.chunks[chunk-1]) == chunkMax {
			l.chunks = append(l.chunks, append(l.fresh(), e))
			return
		}
		chunk--
		at = len(l.chunks[chunk])
	}
	if len(l.chunks[chunk]) == chunkMax {
		l.split(chunk)
		if at > chunkMax/2 {
			chunk, at = chunk+1, at-chunkMax/2
		}
	}
	l.chunks[chunk] = slices.Insert(l.chunks[chunk], at, e)
}

func (l *list) split(chunk int) {
	c := l.chunks[chunk]
	upper := append(l.fresh(), c[chunkMax/2:]...)
	l.chunks[chunk] = c[:chunkMax/2]
	l.chunks = slices.Insert(l.chunks, chunk+1, upper)
}

func (l *list) fresh() []entry {
	c := l.spare[:0]
	l.spare = nil
	return c
}

// remove takes out e, which must be as it was inserted.
func (l *list) remove(e entry) bool {
	chunk, at := l.find(e)
	if chunk == len(l.chunks) || l.chunks[chunk][at] != e {
		return false
	}
	l.size--
	c := l.chunks[chunk]
	if len(c) == 1 {
		l.spare = c
		l.chunks = slices.Delete(l.chunks, chunk, chunk+1)
		return true
	}
	l.chunks[chunk] = slices.Delete(c, at, at+1)
	return true
}

// move replaces an entry by its new self.
func (l *list) move(from, to entry) {
	if l.size == 1 {
		l.chunks[0][0] = to
		return
	}
	l.remove(from)
	l.insert(to)
}
