package engine

import (
	"math"

	"github.com/tenderhq/tender/api"
)

// Amounts are sums by kind of resource, in thousandths; ranges and sets are counted.
// An amount beyond the end is zero, so that a new kind costs nobody anything.
type Amounts []int64

// unbounded is the amount of a bound that is none.
const unbounded = math.MaxInt64

// At is how much there is of a kind.
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

func (a *Amounts) add(b Amounts) {
	a.grow(len(b))
	mine := *a
	for kind, x := range b {
		mine[kind] += x
	}
}

func (a *Amounts) sub(b Amounts) {
	a.grow(len(b))
	mine := *a
	for kind, x := range b {
		mine[kind] -= x
	}
}

func (a *Amounts) addAt(kind int, x int64) {
	a.grow(kind + 1)
	(*a)[kind] += x
}

// set copies b.
func (a *Amounts) set(b Amounts) { *a = append((*a)[:0], b...) }

func (a Amounts) zero() bool {
	for _, x := range a {
		if x != 0 {
			return false
		}
	}
	return true
}

// holds reports whether a is at least b in every kind.
func (a Amounts) holds(b Amounts) bool {
	for kind, x := range b {
		if x > a.At(kind) {
			return false
		}
	}
	return true
}

// fit is how many times b goes into a; 0 when b is nothing.
func (a Amounts) fit(b Amounts) int64 {
	n := int64(unbounded)
	for kind, x := range b {
		if x > 0 {
			n = min(n, a.At(kind)/x)
		}
	}
	if n == unbounded {
		return 0
	}
	return max(n, 0)
}

// kindsScanned is up to how many names comparing is faster than hashing.
const kindsScanned = 6

// kinds gives resource names dense numbers. Only agents and operators name new ones,
// so that there are few.
type kinds struct {
	numbers map[string]int
	names   []string
}

func (k *kinds) number(name string) int {
	for number, known := range k.names[:min(kindsScanned, len(k.names))] {
		if known == name {
			return number
		}
	}
	number, known := k.numbers[name]
	if !known {
		number = len(k.names)
		k.numbers[name] = number
		k.names = append(k.names, name)
	}
	return number
}

// count sums the items that keep wants (nil: all but revocable ones) into the given
// amounts, which it returns.
func (k *kinds) count(into Amounts, resources api.Resources, keep func(api.Label) bool) Amounts {
	into = into[:0]
	items := resources.Items()
	for i := range items {
		item := &items[i] // they are large: not copied
		if keep == nil && item.Revocable || keep != nil && !keep(item.Label) {
			continue
		}
		into.addAt(k.number(item.Name), sizeOf(item))
	}
	return into
}

// countAll is like count, with revocable items as kinds of their own: what is wanted or
// given back of them is never taken for what is firm.
func (k *kinds) countAll(into Amounts, resources api.Resources) Amounts {
	into = into[:0]
	items := resources.Items()
	for i := range items {
		into.addAt(k.kindOf(&items[i]), sizeOf(&items[i]))
	}
	return into
}

// kindOf is the kind of an item where revocable ones are kinds of their own.
func (k *kinds) kindOf(item *api.Resource) int {
	if item.Revocable {
		return k.number(item.Label.String())
	}
	return k.number(item.Name)
}

// bounds is like count, with the kinds that are not named unbounded.
func (k *kinds) bounds(resources api.Resources) Amounts {
	var into Amounts
	for _, item := range resources.Items() {
		kind := k.kindOf(&item)
		for len(into) <= kind {
			into = append(into, unbounded)
		}
		into[kind] = size(item)
	}
	return into
}

// size is the amount of an item: each number of a range and each word of a set is one.
func size(item api.Resource) int64 { return sizeOf(&item) }

func sizeOf(item *api.Resource) int64 {
	if item.Scalar != 0 {
		return int64(item.Scalar)
	}
	return 1000 * int64(min(item.Ranges.Len()+uint64(len(item.Set)), uint64(api.MilliMax)/1000))
}

// unreserved picks what belongs to everybody.
func unreserved(label api.Label) bool { return label.Reserved == "" && !label.Revocable }

// same reports whether both are one and the same value in memory, which is the common
// case and much cheaper to see than equality.
func same(r, s api.Resources) bool {
	mine, other := r.Items(), s.Items()
	return len(mine) == len(other) && (len(mine) == 0 || &mine[0] == &other[0])
}

// covers reports whether r holds all of s.
func covers(r, s api.Resources) bool { return same(r, s) || r.Contains(s) }

// less is r without s, which it holds.
func less(r, s api.Resources) api.Resources {
	if same(r, s) {
		return api.Resources{}
	}
	rest, held := r.Minus(s)
	if !held {
		return r.Without(s)
	}
	return rest
}

func (a Amounts) clone() Amounts { return append(Amounts(nil), a...) }

// milli writes an amount for people.
func milli(x int64) string { return api.Milli(x).String() }

// subTimes takes n times b away.
func (a *Amounts) subTimes(b Amounts, n int64) {
	a.grow(len(b))
	for kind, x := range b {
		(*a)[kind] -= n * x
	}
}
