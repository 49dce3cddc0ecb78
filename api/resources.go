package api

import (
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

// compare orders by name, then role, then the rest. It is the innermost loop of all
// sums: pointers, and no more comparisons than needed.
func (l *Label) compare(m *Label) int {
	if l.Name != m.Name {
		return strings.Compare(l.Name, m.Name)
	}
	if l.Reserved != m.Reserved {
		return strings.Compare(string(l.Reserved), string(m.Reserved))
	}
	if l.Dynamic != m.Dynamic {
		return compareBool(l.Dynamic, m.Dynamic)
	}
	if l.Volume != m.Volume {
		return strings.Compare(string(l.Volume), string(m.Volume))
	}
	return compareBool(l.Revocable, m.Revocable)
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

func (r *Resource) isZero() bool { return r.Scalar == 0 && len(r.Ranges) == 0 && len(r.Set) == 0 }

// add adds s to r in place; r is an item that nobody else holds.
func (r *Resource) add(s *Resource) {
	r.Scalar += s.Scalar
	if len(s.Ranges) > 0 {
		r.Ranges = r.Ranges.Union(s.Ranges)
	}
	if len(s.Set) > 0 {
		r.Set = r.Set.Union(s.Set)
	}
}

// take takes s out of r in place; r is an item that nobody else holds.
func (r *Resource) take(s *Resource) {
	r.Scalar -= s.Scalar
	if len(s.Ranges) > 0 {
		r.Ranges = r.Ranges.Minus(s.Ranges)
	}
	if len(s.Set) > 0 {
		r.Set = r.Set.Minus(s.Set)
	}
}

func (r *Resource) contains(s *Resource) bool {
	return r.Scalar >= s.Scalar && r.Ranges.Contains(s.Ranges) && (len(s.Set) == 0 || r.Set.Contains(s.Set))
}

// overlap is what both hold, under r's label.
func (r *Resource) overlap(s *Resource) Resource {
	both := Resource{Label: r.Label, Scalar: min(r.Scalar, s.Scalar)}
	if len(r.Ranges) > 0 && len(s.Ranges) > 0 {
		both.Ranges = r.Ranges.Intersect(s.Ranges)
	}
	if len(r.Set) > 0 && len(s.Set) > 0 {
		both.Set = r.Set.Intersect(s.Set)
	}
	return both
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
	return gather(slices.Clone(items))
}

// OwnResources is NewResources without a copy: the caller gives the items away.
func OwnResources(items []Resource) Resources { return gather(items) }

// gather makes a bundle of items that nobody else holds.
func gather(items []Resource) Resources {
	if !ordered(items) {
		slices.SortStableFunc(items, func(a, b Resource) int { return a.compare(&b.Label) })
	}
	kept := items[:0]
	for i := range items {
		last := len(kept) - 1
		switch {
		case items[i].isZero():
		case last >= 0 && kept[last].Label == items[i].Label:
			kept[last].add(&items[i])
		default:
			kept = append(kept, items[i])
		}
	}
	return drop(kept)
}

func ordered(items []Resource) bool {
	for i := 1; i < len(items); i++ {
		if items[i-1].compare(&items[i].Label) > 0 {
			return false
		}
	}
	return true
}

// drop makes a bundle of ordered items, one for each label, that nobody else holds,
// without those that hold nothing.
func drop(items []Resource) Resources {
	kept := items[:0]
	for i := range items {
		if !items[i].isZero() {
			if len(kept) != i {
				kept = append(kept, items[i])
			} else {
				kept = items[:i+1]
			}
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

// HasRevocable reports whether any of it may be taken back at any moment.
func (r Resources) HasRevocable() bool {
	for i := range r.items {
		if r.items[i].Revocable {
			return true
		}
	}
	return false
}

// Firm returns what stays until it is given back.
func (r Resources) Firm() Resources {
	if !r.HasRevocable() {
		return r
	}
	return r.Filter(func(l Label) bool { return !l.Revocable })
}

// Revocable returns what may be taken back at any moment.
func (r Resources) Revocable() Resources {
	if !r.HasRevocable() {
		return Resources{}
	}
	return r.Filter(func(l Label) bool { return l.Revocable })
}

// AsRevocable returns the same with its cpus and mem, unless they are reserved, as
// revocable ones: no other resource can be. It is how a task asks for them.
func (r Resources) AsRevocable() Resources {
	items := slices.Clone(r.items)
	for i := range items {
		if item := &items[i]; item.Label == (Label{Name: item.Name}) && CanBeRevocable(item.Name) {
			item.Revocable = true
		}
	}
	return NewResources(items...)
}

// CanBeRevocable reports whether a resource is one of which what a task leaves unused can
// serve another meanwhile, and can be had back by ending that: cpus and mem. A port, a
// device or a disk is taken whether it is used at the moment or not.
func CanBeRevocable(name string) bool { return name == "cpus" || name == "mem" }

// Plain returns the amounts without labels, names alone.
func (r Resources) Plain() Resources {
	items := make([]Resource, len(r.items))
	for i, item := range r.items {
		items[i] = item
		items[i].Label = Label{Name: item.Name}
	}
	return NewResources(items...)
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
