package work

import (
	"maps"
	"slices"
)

// Survey knows how the items of a service stand while the service changes from one version to another, by their
// numbers: how many are down, and which one is to be changed next. It looks again only at items that were touched.
type Survey struct {
	seats   map[int]seat // nil: nothing changes
	touched map[int]bool
	items   map[seat][]int // by their seats, sorted
}

// Stand says how an item stands in a change.
type Stand uint8

// The stands.
const (
	Absent  Stand = iota // it takes no part
	Old                  // it runs another version, and waits for its turn
	Tried                // it was changed, and has not proven itself
	Changed              // it was changed, and has proven itself
)

type seat struct {
	stand Stand
	up    bool
}

// Begin forgets everything, for a change that begins, and touches so many items.
func (s *Survey) Begin(items int) {
	*s = Survey{seats: make(map[int]seat), touched: make(map[int]bool), items: make(map[seat][]int)}
	for number := range items {
		s.touched[number] = true
	}
}

// Touch notes that something of an item has changed. It is ignored while nothing changes.
func (s *Survey) Touch(number int) {
	if s.seats != nil {
		s.touched[number] = true
	}
}

// Look has all items looked at that were touched, the lowest numbers first: see returns how an item stands, and whether it
// is up. It may touch items.
func (s *Survey) Look(see func(number int) (stand Stand, up bool)) {
	for len(s.touched) > 0 {
		for _, number := range slices.Sorted(maps.Keys(s.touched)) {
			delete(s.touched, number)
			stand, up := see(number)
			before := s.seats[number]
			if at, is := slices.BinarySearch(s.items[before], number); is {
				s.items[before] = slices.Delete(s.items[before], at, at+1)
			}
			now := seat{stand, up}
			at, _ := slices.BinarySearch(s.items[now], number)
			s.seats[number], s.items[now] = now, slices.Insert(s.items[now], at, number)
		}
	}
}

// Count returns how many items stand so.
func (s *Survey) Count(stand Stand) int {
	return len(s.items[seat{stand, false}]) + len(s.items[seat{stand, true}])
}

// Tried returns the items that were changed, have not proven themselves, and are up.
func (s *Survey) Tried() []int { return slices.Clone(s.items[seat{Tried, true}]) }

// Next returns the item that is to be changed next: one that is down, before one that is up; of these the one with the
// lowest number. False: none waits, or so many are in change already, or so many are down that none that is up may be
// changed, unless its new task begins beside the old one.
func (s *Survey) Next(atOnce int, beside bool) (number int, is bool) {
	down, up := s.items[seat{Old, false}], s.items[seat{Old, true}]
	switch {
	case s.Count(Tried) >= atOnce || len(down)+len(up) == 0:
		return 0, false
	case len(down) > 0:
		return down[0], true
	}
	return up[0], beside || len(s.items[seat{Tried, false}])+len(s.items[seat{Changed, false}]) < atOnce
}
