package books

import (
	"math"

	"github.com/tenderhq/tender/api"
)

// Amounts are sums by kind of resource, in thousandths; ranges and sets are counted. A kind beyond the end has an
// amount of zero, so that a new kind costs nothing.
type Amounts []int64

// Unbounded is the amount that stands for no bound.
const Unbounded = math.MaxInt64

// At returns the amount of a kind.
func (a Amounts) At(kind int) int64 {
	if kind < len(a) {
		return a[kind]
	}
	return 0
}

func (a *Amounts) grow(n int) {
	for len(*a) < n {
		*a = append(*a, 0)
	}
}

func (a *Amounts) Add(b Amounts) {
	a.grow(len(b))
	mine := *a
	for kind, x := range b {
		mine[kind] += x
	}
}

func (a *Amounts) Sub(b Amounts) {
	a.grow(len(b))
	mine := *a
	for kind, x := range b {
		mine[kind] -= x
	}
}

func (a *Amounts) AddAt(kind int, x int64) {
	a.grow(kind + 1)
	(*a)[kind] += x
}

// Set copies b into a.
func (a *Amounts) Set(b Amounts) { *a = append((*a)[:0], b...) }

func (a Amounts) Zero() bool {
	for _, x := range a {
		if x != 0 {
			return false
		}
	}
	return true
}

// Holds reports whether a is at least b in every kind.
func (a Amounts) Holds(b Amounts) bool {
	for kind, x := range b {
		if x > a.At(kind) {
			return false
		}
	}
	return true
}

// Fit returns how many times b fits into a; 0 if b is empty.
func (a Amounts) Fit(b Amounts) int64 {
	n := int64(Unbounded)
	for kind, x := range b {
		if x > 0 {
			n = min(n, a.At(kind)/x)
		}
	}
	if n == Unbounded {
		return 0
	}
	return max(n, 0)
}

// kindsScanned is the number of names up to which comparing is faster than hashing.
const kindsScanned = 6

// kinds gives names of resources consecutive numbers. Only agents and operators introduce new names, so that there are
// few.
type kinds struct {
	Numbers map[string]int
	Names   []string
}

func (k *kinds) Number(name string) int {
	for number, known := range k.Names[:min(kindsScanned, len(k.Names))] {
		if known == name {
			return number
		}
	}
	number, known := k.Numbers[name]
	if !known {
		number = len(k.Names)
		k.Numbers[name] = number
		k.Names = append(k.Names, name)
	}
	return number
}

// Count adds up the items for which keep returns true (nil: all that are not revocable), in the memory of into, and
// returns the sums.
func (k *kinds) Count(into Amounts, resources api.Resources, keep func(api.Label) bool) Amounts {
	into = into[:0]
	items := resources.Items()
	for i := range items {
		item := &items[i] // items are large, so they are not copied
		if keep == nil && item.Revocable || keep != nil && !keep(item.Label) {
			continue
		}
		into.AddAt(k.Number(item.Name), sizeOf(item))
	}
	return into
}

// CountAll is like Count, but counts revocable items as kinds of their own, so that they are never mixed up with firm
// ones.
func (k *kinds) CountAll(into Amounts, resources api.Resources) Amounts {
	into = into[:0]
	items := resources.Items()
	for i := range items {
		into.AddAt(k.KindOf(&items[i]), sizeOf(&items[i]))
	}
	return into
}

// KindOf returns the kind of an item, where revocable items are kinds of their own.
func (k *kinds) KindOf(item *api.Resource) int {
	if item.Revocable {
		return k.Number(item.Label.String())
	}
	return k.Number(item.Name)
}

// Bounds is like Count, but kinds that are not named are unbounded.
func (k *kinds) Bounds(resources api.Resources) Amounts {
	var into Amounts
	for _, item := range resources.Items() {
		kind := k.KindOf(&item)
		for len(into) <= kind {
			into = append(into, Unbounded)
		}
		into[kind] = Size(item)
	}
	return into
}

// Size returns the amount of an item. Each number of a range and each word of a set counts as one.
func Size(item api.Resource) int64 { return sizeOf(&item) }

func sizeOf(item *api.Resource) int64 {
	if item.Scalar != 0 {
		return int64(item.Scalar)
	}
	return 1000 * int64(min(item.Ranges.Len()+uint64(len(item.Set)), uint64(api.MilliMax)/1000))
}

// Unreserved reports whether resources with this label are for everybody.
func Unreserved(label api.Label) bool { return label.Reserved == "" && !label.Revocable }

// Same reports whether both are the same value in memory. That is the common case, and much cheaper to find out than
// equality.
func Same(r, s api.Resources) bool {
	mine, other := r.Items(), s.Items()
	return len(mine) == len(other) && (len(mine) == 0 || &mine[0] == &other[0])
}

// Covers reports whether r holds all of s.
func Covers(r, s api.Resources) bool { return Same(r, s) || r.Contains(s) }

// Less returns r without s; r must hold s.
func Less(r, s api.Resources) api.Resources {
	if Same(r, s) {
		return api.Resources{}
	}
	rest, held := r.Minus(s)
	if !held {
		return r.Without(s)
	}
	return rest
}

func (a Amounts) Clone() Amounts { return append(Amounts(nil), a...) }

// SubTimes subtracts b n times.
func (a *Amounts) SubTimes(b Amounts, n int64) {
	a.grow(len(b))
	for kind, x := range b {
		(*a)[kind] -= n * x
	}
}
