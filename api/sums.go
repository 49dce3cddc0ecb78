package api

import "slices"

// Equal reports whether both bundles hold the same.
func (r Resources) Equal(s Resources) bool {
	if len(r.items) != len(s.items) {
		return false
	}
	for i := range r.items {
		a, b := &r.items[i], &s.items[i]
		if a.Label != b.Label || a.Scalar != b.Scalar || !slices.Equal(a.Ranges, b.Ranges) || !slices.Equal(a.Set, b.Set) {
			return false
		}
	}
	return true
}

// Plus returns the sum. Ranges and sets are united.
func (r Resources) Plus(s Resources) Resources {
	switch {
	case r.IsZero():
		return s
	case s.IsZero():
		return r
	case r.covers(s):
		sum := slices.Clone(r.items)
		i := 0
		for j := range s.items {
			for sum[i].Label != s.items[j].Label {
				i++
			}
			sum[i].add(&s.items[j])
		}
		return drop(sum)
	}
	sum := make([]Resource, 0, len(r.items)+len(s.items))
	i, j := 0, 0
	for i < len(r.items) && j < len(s.items) {
		switch order := r.items[i].compare(&s.items[j].Label); {
		case order < 0:
			sum = append(sum, r.items[i])
			i++
		case order > 0:
			sum = append(sum, s.items[j])
			j++
		default:
			sum = append(sum, r.items[i])
			sum[len(sum)-1].add(&s.items[j])
			i++
			j++
		}
	}
	sum = append(sum, r.items[i:]...)
	return drop(append(sum, s.items[j:]...))
}

// covers reports whether r has an item for every label of s.
func (r Resources) covers(s Resources) bool {
	i := 0
	for j := range s.items {
		for i < len(r.items) && r.items[i].Label != s.items[j].Label {
			i++
		}
		if i == len(r.items) {
			return false
		}
	}
	return true
}

// Minus returns r without s, and whether r contained s. If it did not, Minus returns r unchanged.
func (r Resources) Minus(s Resources) (Resources, bool) {
	if !r.Contains(s) {
		return r, false
	}
	if s.IsZero() {
		return r, true
	}
	return r.less(s), true
}

// less returns r without s. All labels of s must be among those of r.
func (r Resources) less(s Resources) Resources {
	left := slices.Clone(r.items)
	i := 0
	for j := range s.items {
		for left[i].Label != s.items[j].Label {
			i++
		}
		left[i].take(&s.items[j])
	}
	return drop(left)
}

// Without returns r without the part of s that r holds.
func (r Resources) Without(s Resources) Resources {
	both := r.Intersect(s)
	if both.IsZero() {
		return r
	}
	return r.less(both)
}

// Intersect returns what both bundles hold.
func (r Resources) Intersect(s Resources) Resources {
	var both []Resource
	for i, j := 0, 0; i < len(r.items) && j < len(s.items); {
		switch order := r.items[i].compare(&s.items[j].Label); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			if item := r.items[i].overlap(&s.items[j]); !item.isZero() {
				both = append(both, item)
			}
			i++
			j++
		}
	}
	return Resources{both}
}

// Find returns the item with exactly this label.
func (r Resources) Find(label Label) (Resource, bool) {
	if i := r.index(&label); i >= 0 {
		return r.items[i], true
	}
	return Resource{}, false
}

// index returns the position of the label's item, or -1.
func (r Resources) index(label *Label) int {
	low, high := 0, len(r.items)
	for low < high {
		middle := (low + high) / 2
		switch order := r.items[middle].compare(label); {
		case order == 0:
			return middle
		case order < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return -1
}

// Contains reports whether r holds all of s, label by label.
func (r Resources) Contains(s Resources) bool {
	i := 0
	for j := range s.items {
		want := &s.items[j]
		for i < len(r.items) && r.items[i].Label != want.Label {
			i++
		}
		if i == len(r.items) || !r.items[i].contains(want) {
			return false
		}
	}
	return true
}

// Carve takes what ask wants out of r. An item of ask with labels is taken from the item of r with exactly that label.
// An item without labels is taken from reserved parts first, then from unreserved ones, never from a volume, a tagged
// reservation or revocable parts. If an item without labels asks for a number of a resource that r has as ranges, it
// takes that many, the lowest first: ports:2 is any two ports. Carve returns what was taken, with its labels, and what
// is left. If anything is missing, ok is false and nothing is taken.
func (r Resources) Carve(ask Resources) (taken, rest Resources, ok bool) {
	for i := range ask.items {
		if r.lacks(&ask.items[i]) {
			return Resources{}, r, false
		}
	}
	left := slices.Clone(r.items)
	parts := make([]Resource, 0, len(ask.items))
	for i := range ask.items {
		want := &ask.items[i]
		if parts, ok = carve(left, want, parts); !ok {
			return Resources{}, r, false
		}
	}
	return gather(parts), drop(left), true
}

// WholeVolumes returns the ask with each of its volumes as it is in there: a volume is used whole, whatever part of it
// was asked for, and with the reservation that it has. A volume that is not there stays as it was asked for.
func (r Resources) WholeVolumes(there Resources) Resources {
	if !slices.ContainsFunc(r.items, func(item Resource) bool { return item.Volume != "" }) {
		return r
	}
	items := slices.Clone(r.items)
	for i := range items {
		if whole, is := there.volume(items[i].Volume); is {
			items[i] = whole
		}
	}
	return NewResources(items...)
}

// LackingVolume returns the first volume of the ask that is not in there; "": none lacks.
func (r Resources) LackingVolume(there Resources) VolumeID {
	for i := range r.items {
		if _, is := there.volume(r.items[i].Volume); !is && r.items[i].Volume != "" {
			return r.items[i].Volume
		}
	}
	return ""
}

func (r Resources) volume(id VolumeID) (whole Resource, is bool) {
	for i := range r.items {
		if id != "" && r.items[i].Volume == id {
			return r.items[i], true
		}
	}
	return whole, false
}

// MeetsAny reports whether an ask without labels may be met from what has this label.
func (l *Label) MeetsAny() bool { return l.Volume == "" && l.Tag == "" && !l.Revocable }

// lacks reports cheaply, for amounts without a label, that carve would find too little. It serves callers that look for
// room on thousands of agents.
func (r Resources) lacks(want *Resource) bool {
	if want.Scalar == 0 || want.Label != (Label{Name: want.Name}) {
		return false
	}
	var have Milli
	for i := range r.items {
		if item := &r.items[i]; item.Name == want.Name && item.MeetsAny() {
			have += item.Scalar + ofMany(item.Ranges)
		}
	}
	return have < want.Scalar
}

// carve takes one item out of left, in place, and appends the parts that it took to parts.
func carve(left []Resource, want *Resource, parts []Resource) ([]Resource, bool) {
	if want.Label != (Label{Name: want.Name}) {
		i := Resources{left}.index(&want.Label)
		if i < 0 || !left[i].contains(want) {
			return parts, false
		}
		left[i].take(want)
		return append(parts, *want), true
	}
	missing := *want
	// Reserved labels sort after the unreserved one, so walk backwards.
	for i := len(left) - 1; i >= 0 && !missing.isZero(); i-- {
		item := &left[i]
		if item.Name != want.Name || !item.MeetsAny() {
			continue
		}
		part := item.overlap(&missing)
		missing.take(&part)
		if missing.Scalar >= 1000 && part.isZero() && len(item.Ranges) > 0 {
			part.Ranges = item.Ranges.Lowest(uint64(missing.Scalar / 1000))
			missing.Scalar -= ofMany(part.Ranges)
		}
		if !part.isZero() {
			item.take(&part)
			parts = append(parts, part)
		}
	}
	return parts, missing.isZero()
}

// ofMany returns an amount that counts each number in the ranges as one unit.
func ofMany(r Ranges) Milli {
	if len(r) == 0 {
		return 0
	}
	return Milli(1000 * min(r.Len(), uint64(MilliMax)/1000))
}
