package core

import (
	"iter"
	"maps"
	mathbits "math/bits"
	"slices"

	"github.com/tenderhq/tender/api"
)

// partSlots is how many indexes have one record in the store.
const partSlots = 256

// indexes are those of a sub-job: which have begun, and how those have ended that have.
type indexes struct {
	Parts  map[int]*part
	Next   int // the lowest index that has not begun
	Slots  int // number of indexes that have begun and not ended
	Done   int // indexes that ended well
	Failed int // indexes that were given up
	Folded folded
}

// folded are parts whose indexes have all ended, and the counts of these.
type folded struct {
	Parts        api.Ranges // by their numbers
	Done, Failed int
}

// part is what one record of the store holds.
type part struct {
	Slots    map[int]*slot
	Done     bits // indexes that ended well
	Failed   bits // indexes that were given up
	Attempts int  // number of attempts so far; the next has one more
}

// bits is a set of indexes of a part.
type bits [partSlots / 64]uint64

func (b *bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bits) count() (n int) {
	for _, word := range b {
		n += mathbits.OnesCount64(word)
	}
	return n
}

// last returns the highest index, or -1.
func (b *bits) last() int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return i*64 + mathbits.Len64(b[i]) - 1
		}
	}
	return -1
}

// partOf returns the part of an index; it makes the part if there is none.
func (x *indexes) partOf(index int) *part {
	number := index / partSlots
	p := x.Parts[number]
	if p == nil {
		p = &part{Slots: make(map[int]*slot)}
		x.Parts[number] = p
	}
	return p
}

// slotOf returns the slot of an index; nil: the index has not begun, or has ended.
func (x *indexes) slotOf(index int) *slot {
	if p := x.Parts[index/partSlots]; p != nil {
		return p.Slots[index]
	}
	return nil
}

// nextAttempt returns the number of the next attempt of an index.
func (x *indexes) nextAttempt(index int) int {
	if p := x.Parts[index/partSlots]; p != nil {
		return p.Attempts + 1
	}
	return 1
}

// hasEnded reports whether the index has ended.
func (x *indexes) hasEnded(index int) bool {
	number := index / partSlots
	if x.Folded.Parts.Contains(numberOf(number)) {
		return true
	}
	p := x.Parts[number]
	return p != nil && (p.Done.has(index%partSlots) || p.Failed.has(index%partSlots))
}

// allSlots returns the slots by index.
func (x *indexes) allSlots() []*slot {
	var list []*slot
	for _, number := range slices.Sorted(maps.Keys(x.Parts)) {
		p := x.Parts[number]
		for _, index := range slices.Sorted(maps.Keys(p.Slots)) {
			list = append(list, p.Slots[index])
		}
	}
	return list
}

// allAttempts yields the tasks that the slots have, by index.
func (x *indexes) allAttempts() iter.Seq[*attempt] {
	return func(yield func(*attempt) bool) {
		for _, s := range x.allSlots() {
			for _, a := range s.tasks() {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// addIndex adds a slot.
func (x *indexes) addIndex(s *slot) {
	x.partOf(s.Index).Slots[s.Index] = s
	x.Slots++
	x.Next = max(x.Next, s.Index+1)
}

// removeIndex removes a slot.
func (x *indexes) removeIndex(s *slot) {
	delete(x.partOf(s.Index).Slots, s.Index)
	x.Slots--
}

// noteEnd notes that an index has ended, done or given up.
func (x *indexes) noteEnd(index int, done bool) {
	p := x.partOf(index)
	if done {
		p.Done.set(index % partSlots)
		x.Done++
	} else {
		p.Failed.set(index % partSlots)
		x.Failed++
	}
}

// dropEmptyParts forgets the parts without slots and returns their numbers, except for the last part: that one knows
// how many attempts there were, and the next index comes after it.
func (x *indexes) dropEmptyParts() (numbers []int) {
	all := slices.Sorted(maps.Keys(x.Parts))
	for _, number := range all[:max(0, len(all)-1)] {
		if len(x.Parts[number].Slots) == 0 {
			delete(x.Parts, number)
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// dropParts reduces the indexes to their counts, and returns the numbers of the parts that there were.
func (x *indexes) dropParts() (numbers []int) {
	x.Folded.Done, x.Folded.Failed = x.Done, x.Failed
	numbers = slices.Sorted(maps.Keys(x.Parts))
	clear(x.Parts)
	return numbers
}

// numberOf returns the range that is one part.
func numberOf(part int) api.Ranges { return api.Ranges{{Begin: uint64(part), End: uint64(part)}} }
