package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Label is what tells resources of one name apart. It is comparable.
type Label struct {
	Name string
	// Reserved is the role whose subtree alone may use it; "" = anyone.
	Reserved Role
	// Dynamic tells a reservation made by RESERVE from one of the agent's flags.
	Dynamic bool
	// Volume is the persistent volume that reserved disk has become; "" = none.
	Volume VolumeID
	// Revocable resources may be taken back at any moment (REVOKED).
	Revocable bool
}

func (l Label) compare(m Label) int {
	return cmp.Or(
		strings.Compare(l.Name, m.Name),
		strings.Compare(string(l.Reserved), string(m.Reserved)),
		compareBool(l.Dynamic, m.Dynamic),
		strings.Compare(string(l.Volume), string(m.Volume)),
		compareBool(l.Revocable, m.Revocable),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return +1
}

// Resource is an amount of one kind: exactly one of Scalar, Ranges and Set is used.
type Resource struct {
	Label
	Scalar Milli
	Ranges Ranges
	Set    Set
}

func (r Resource) isZero() bool { return r.Scalar == 0 && len(r.Ranges) == 0 && len(r.Set) == 0 }

func (r Resource) plus(s Resource) Resource {
	r.Scalar += s.Scalar
	r.Ranges = r.Ranges.Union(s.Ranges)
	r.Set = r.Set.Union(s.Set)
	return r
}

func (r Resource) minus(s Resource) Resource {
	r.Scalar -= s.Scalar
	r.Ranges = r.Ranges.Minus(s.Ranges)
	r.Set = r.Set.Minus(s.Set)
	return r
}

func (r Resource) contains(s Resource) bool {
	return r.Scalar >= s.Scalar && r.Ranges.Contains(s.Ranges) && r.Set.Contains(s.Set)
}

func (r Resource) overlap(s Resource) Resource {
	r.Scalar = min(r.Scalar, s.Scalar)
	r.Ranges = r.Ranges.Intersect(s.Ranges)
	r.Set = r.Set.Intersect(s.Set)
	return r
}

// Resources is an immutable bundle. Its items are sorted by label, one for each,
// none of them zero, so that equal bundles have equal items. The zero value is
// the empty bundle.
type Resources struct {
	items []Resource
}

// NewResources gathers items of any order; those of one label are added up.
// Items that hold nothing are left out.
func NewResources(items ...Resource) Resources {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b Resource) int { return a.Label.compare(b.Label) })
	kept := sorted[:0]
	for _, item := range sorted {
		last := len(kept) - 1
		switch {
		case item.isZero():
		case last >= 0 && kept[last].Label == item.Label:
			kept[last] = kept[last].plus(item)
		default:
			kept = append(kept, item)
		}
	}
	if len(kept) == 0 {
		return Resources{}
	}
	return Resources{kept}
}

// Scalars is the bundle of cpus and mem (in MB) that examples and tests need most.
func Scalars(cpus, memMB float64) Resources {
	return NewResources(
		Resource{Label: Label{Name: "cpus"}, Scalar: MilliOf(cpus)},
		Resource{Label: Label{Name: "mem"}, Scalar: MilliOf(memMB)},
	)
}

// Items returns the items in the order of their labels. Do not change them.
func (r Resources) Items() []Resource { return r.items }

// IsZero reports whether the bundle holds nothing.
func (r Resources) IsZero() bool { return len(r.items) == 0 }

// Equal reports whether both hold the same.
func (r Resources) Equal(s Resources) bool {
	return slices.EqualFunc(r.items, s.items, func(a, b Resource) bool {
		return a.Label == b.Label && a.Scalar == b.Scalar && slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Set, b.Set)
	})
}

// Plus returns the sum. Ranges and sets unite.
func (r Resources) Plus(s Resources) Resources {
	switch {
	case r.IsZero():
		return s
	case s.IsZero():
		return r
	}
	return r.merge(s, Resource.plus)
}

// Minus returns what is left of r without s, and whether r contained s. When it
// did not, r is returned unchanged.
func (r Resources) Minus(s Resources) (Resources, bool) {
	if !r.Contains(s) {
		return r, false
	}
	if s.IsZero() {
		return r, true
	}
	return r.merge(s, Resource.minus), true
}

// Without returns r less whatever of s it holds.
func (r Resources) Without(s Resources) Resources {
	return r.merge(r.Intersect(s), Resource.minus)
}

// Intersect returns what both hold.
func (r Resources) Intersect(s Resources) Resources {
	var kept []Resource
	for _, item := range r.items {
		if other, ok := s.Find(item.Label); ok {
			if both := item.overlap(other); !both.isZero() {
				kept = append(kept, both)
			}
		}
	}
	return Resources{kept}
}

// merge walks both in order of labels; an item of s alone is joined to a zero item.
func (r Resources) merge(s Resources, join func(a, b Resource) Resource) Resources {
	merged := make([]Resource, 0, len(r.items)+len(s.items))
	add := func(item Resource) {
		if !item.isZero() {
			merged = append(merged, item)
		}
	}
	i, j := 0, 0
	for i < len(r.items) && j < len(s.items) {
		switch order := r.items[i].Label.compare(s.items[j].Label); {
		case order < 0:
			add(r.items[i])
			i++
		case order > 0:
			add(join(Resource{Label: s.items[j].Label}, s.items[j]))
			j++
		default:
			add(join(r.items[i], s.items[j]))
			i++
			j++
		}
	}
	for ; i < len(r.items); i++ {
		add(r.items[i])
	}
	for ; j < len(s.items); j++ {
		add(join(Resource{Label: s.items[j].Label}, s.items[j]))
	}
	if len(merged) == 0 {
		return Resources{}
	}
	return Resources{merged}
}

// Find returns the item of exactly this label.
func (r Resources) Find(label Label) (Resource, bool) {
	i, found := slices.BinarySearchFunc(r.items, label, func(item Resource, l Label) int { return item.Label.compare(l) })
	if !found {
		return Resource{}, false
	}
	return r.items[i], true
}

// Contains reports whether r holds all of s, label by label.
func (r Resources) Contains(s Resources) bool {
	i := 0
	for _, want := range s.items {
		for i < len(r.items) && r.items[i].Label.compare(want.Label) < 0 {
			i++
		}
		if i == len(r.items) || r.items[i].Label != want.Label || !r.items[i].contains(want) {
			return false
		}
	}
	return true
}

// Scalar returns the amount of the name over all labels.
func (r Resources) Scalar(name string) Milli {
	var sum Milli
	for _, item := range r.items {
		if item.Name == name {
			sum += item.Scalar
		}
	}
	return sum
}

// RangesOf returns the ranges of the name over all labels.
func (r Resources) RangesOf(name string) Ranges {
	var all Ranges
	for _, item := range r.items {
		if item.Name == name {
			all = all.Union(item.Ranges)
		}
	}
	return all
}

// Filter returns the items whose label keep wants.
func (r Resources) Filter(keep func(Label) bool) Resources {
	var kept []Resource
	for _, item := range r.items {
		if keep(item.Label) {
			kept = append(kept, item)
		}
	}
	return Resources{kept}
}

// UsableBy returns what a framework in the role may use: what is not reserved, and
// what is reserved for the role or one above it.
func (r Resources) UsableBy(role Role) Resources {
	return r.Filter(func(l Label) bool { return l.Reserved == "" || role.Within(l.Reserved) })
}

// Plain returns the amounts without labels, names alone.
func (r Resources) Plain() Resources {
	items := make([]Resource, len(r.items))
	for i, item := range r.items {
		items[i] = item
		items[i].Label = Label{Name: item.Name}
	}
	return NewResources(items...)
}

// Carve takes what ask wants out of r: an item with labels from exactly that label;
// one without from reserved parts first, then from unreserved ones, never from a
// volume or from revocable parts. It returns what was taken (with its labels) and
// what is left; ok is false, and nothing is taken, when something is missing.
func (r Resources) Carve(ask Resources) (taken, rest Resources, ok bool) {
	rest = r
	for _, want := range ask.items {
		part, found := rest.carveOne(want)
		if !found {
			return Resources{}, r, false
		}
		taken = taken.Plus(part)
		rest, _ = rest.Minus(part)
	}
	return taken, rest, true
}

func (r Resources) carveOne(want Resource) (Resources, bool) {
	if want.Label != (Label{Name: want.Name}) {
		one := Resources{[]Resource{want}}
		return one, r.Contains(one)
	}
	var parts []Resource
	missing := want
	// Reserved labels sort after the unreserved one, so walk backwards.
	for i := len(r.items) - 1; i >= 0 && !missing.isZero(); i-- {
		item := r.items[i]
		if item.Name != want.Name || item.Volume != "" || item.Revocable {
			continue
		}
		part := item.overlap(missing)
		if !part.isZero() {
			parts = append(parts, part)
			missing = missing.minus(part)
		}
	}
	return NewResources(parts...), missing.isZero()
}

// String is the notation that [ParseResources] reads: "cpus:4;mem:1024;ports:[31000-31009]".
func (r Resources) String() string {
	if r.IsZero() {
		return "nothing"
	}
	parts := make([]string, len(r.items))
	for i, item := range r.items {
		parts[i] = item.Label.String() + ":" + item.amount()
	}
	return strings.Join(parts, ";")
}

// String is the name, with labels in brackets: "disk(eng,volume=v1)", "cpus(revocable)".
func (l Label) String() string {
	var tags []string
	if l.Reserved != "" {
		tags = append(tags, string(l.Reserved))
	}
	if l.Dynamic {
		tags = append(tags, "dynamic")
	}
	if l.Volume != "" {
		tags = append(tags, "volume="+string(l.Volume))
	}
	if l.Revocable {
		tags = append(tags, "revocable")
	}
	if len(tags) == 0 {
		return l.Name
	}
	return l.Name + "(" + strings.Join(tags, ",") + ")"
}

func (r Resource) amount() string {
	switch {
	case len(r.Ranges) > 0:
		return r.Ranges.String()
	case len(r.Set) > 0:
		return r.Set.String()
	}
	return r.Scalar.String()
}

// Check reports why r can't be asked for or offered, or nil.
func (r Resources) Check() error {
	if len(r.items) > ResourceLabelsMax {
		return fmt.Errorf("%d differently labelled resources, at most %d are allowed", len(r.items), ResourceLabelsMax)
	}
	names := 0
	for i := range r.items {
		item := &r.items[i]
		if err := item.Check(); err != nil {
			return err
		}
		switch {
		case i == 0 || r.items[i-1].Name != item.Name:
			names++
		case r.items[i-1].kind() != item.kind():
			return fmt.Errorf("%s is of two kinds; it is a number, ranges or a set everywhere", item.Name)
		}
	}
	if names > ResourceNamesMax {
		return fmt.Errorf("%d kinds of resources, at most %d are allowed", names, ResourceNamesMax)
	}
	return nil
}

// kind is the one notation that the resource uses: 0 a number, 1 ranges, 2 a set.
func (r *Resource) kind() int {
	switch {
	case len(r.Ranges) > 0:
		return 1
	case len(r.Set) > 0:
		return 2
	}
	return 0
}

// Check reports why r can't be asked for or offered, or nil.
func (r *Resource) Check() error {
	if err := CheckID("a resource's name", r.Name); err != nil {
		return err
	}
	if strings.ContainsAny(r.Name, notation) {
		return fmt.Errorf("resource %q: a name may not hold brackets, ':', ';', ',' or '='", r.Name)
	}
	switch {
	case r.Scalar < 0:
		return fmt.Errorf("%s is %v; it must not be negative", r.Name, r.Scalar)
	case r.Scalar > MilliMax:
		return fmt.Errorf("%s is %v; at most %v is allowed", r.Name, r.Scalar, MilliMax)
	case r.Scalar != 0 && len(r.Ranges) > 0, r.Scalar != 0 && len(r.Set) > 0, len(r.Ranges) > 0 && len(r.Set) > 0:
		return fmt.Errorf("%s is of two kinds; it is a number, ranges or a set", r.Name)
	}
	if err := r.Label.check(); err != nil {
		return err
	}
	if err := r.Set.check(r.Name); err != nil {
		return err
	}
	return r.Ranges.check(r.Name)
}

func (l *Label) check() error {
	if l.Reserved != "" {
		if err := l.Reserved.Check(); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	if l.Volume != "" {
		if l.Name != "disk" || l.Reserved == "" {
			return fmt.Errorf("%v: only reserved disk can be a volume", l)
		}
		if err := CheckID("volume ID", string(l.Volume)); err != nil {
			return err
		}
		if strings.ContainsAny(string(l.Volume), notation) {
			return fmt.Errorf("volume ID %q may not hold brackets, ':', ';', ',' or '='", l.Volume)
		}
	}
	switch {
	case l.Revocable && l.Reserved != "":
		return fmt.Errorf("%v: revocable resources can't be reserved", l)
	case l.Dynamic && l.Reserved == "":
		return fmt.Errorf("%v: only a reservation can be dynamic; name its role", l)
	}
	return nil
}

// MarshalJSON writes {"cpus":4,"mem":1024,"ports":"[31000-31009]","disk(eng)":100}.
func (r Resources) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(r.items))
	for _, item := range r.items {
		if item.kind() == 0 {
			object[item.Label.String()] = json.Number(item.Scalar.String())
		} else {
			object[item.Label.String()] = item.amount()
		}
	}
	return json.Marshal(object)
}

// bytes is about how many bytes the bundle takes in a message, rather too many.
func (r Resources) bytes() int {
	size := 0
	for i := range r.items {
		item := &r.items[i]
		size += len(item.Name) + len(item.Reserved) + len(item.Volume) + 40 + 24*len(item.Ranges)
		for _, word := range item.Set {
			size += len(word) + 4
		}
	}
	return size
}
