package books

import (
	"slices"
)

// Entry is a position in an order: the smaller share comes first, then the one that has waited longer since its last
// offer, so that equals take turns.
type Entry struct {
	Share  float64
	Served uint64 // number of its last offer
	ID     int32  // number of a member, or the complement of the number of a place
}

func (e Entry) before(f Entry) bool {
	if e.Share != f.Share {
		return e.Share < f.Share
	}
	if e.Served != f.Served {
		return e.Served < f.Served
	}
	return e.number() < f.number()
}

func (e Entry) number() int32 {
	if e.ID < 0 {
		return ^e.ID
	}
	return e.ID
}

// List keeps entries sorted, in chunks. To move an entry costs about the same among ten and among ten thousand, and to
// walk in order costs no search.
type List struct {
	Chunks [][]Entry // none is empty
	spare  []Entry   // an emptied chunk, to be used again
	Size   int
}

const chunkMax = 128

// find returns the position at which e is, or would be.
func (l *List) find(e Entry) (chunk, at int) {
	low, high := 0, len(l.Chunks)
	for low < high {
		middle := (low + high) / 2
		if c := l.Chunks[middle]; c[len(c)-1].before(e) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(l.Chunks) {
		return low, 0
	}
	c := l.Chunks[low]
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

func (l *List) Insert(e Entry) {
	l.Size++
	chunk, at := l.find(e)
	if chunk == len(l.Chunks) {
		if chunk == 0 || len(l.Chunks[chunk-1]) == chunkMax {
			l.Chunks = append(l.Chunks, append(l.fresh(), e))
			return
		}
		chunk--
		at = len(l.Chunks[chunk])
	}
	if len(l.Chunks[chunk]) == chunkMax {
		l.split(chunk)
		if at > chunkMax/2 {
			chunk, at = chunk+1, at-chunkMax/2
		}
	}
	l.Chunks[chunk] = slices.Insert(l.Chunks[chunk], at, e)
}

func (l *List) split(chunk int) {
	c := l.Chunks[chunk]
	upper := append(l.fresh(), c[chunkMax/2:]...)
	l.Chunks[chunk] = c[:chunkMax/2]
	l.Chunks = slices.Insert(l.Chunks, chunk+1, upper)
}

func (l *List) fresh() []Entry {
	c := l.spare[:0]
	l.spare = nil
	return c
}

// Remove removes e, which must be the same as when it was inserted.
func (l *List) Remove(e Entry) bool {
	chunk, at := l.find(e)
	if chunk == len(l.Chunks) || l.Chunks[chunk][at] != e {
		return false
	}
	l.Size--
	c := l.Chunks[chunk]
	if len(c) == 1 {
		l.spare = c
		l.Chunks = slices.Delete(l.Chunks, chunk, chunk+1)
		return true
	}
	l.Chunks[chunk] = slices.Delete(c, at, at+1)
	return true
}

// Move replaces an entry by its new value.
func (l *List) Move(from, to Entry) {
	if l.Size == 1 {
		l.Chunks[0][0] = to
		return
	}
	l.Remove(from)
	l.Insert(to)
}
