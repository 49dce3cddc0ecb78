package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Label tells apart resources of the same name. It is comparable.
type Label struct {
	Name string
	// Reserved is the role that the resource is reserved for; only frameworks in this role or below it may use it. "" =
	// anyone.
	Reserved Role
	// Dynamic says that the reservation was made by an OpReserve, not by the agent's flags.
	Dynamic bool
	// Volume is the persistent volume that was made of this reserved disk; "" = none.
	Volume VolumeID
	// Tag is what whoever made a dynamic reservation wrote on it. Only who names it uses what it is on: an ask without
	// labels is not met from it (R91). "" = none.
	Tag string
	// Revocable resources may be taken back at any moment (REVOKED).
	Revocable bool
}

// compare orders labels by name, then by role, then by the rest. It is the innermost loop of all sums; that is why it
// takes pointers and compares no more than needed.
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
	if l.Tag != m.Tag {
		return strings.Compare(l.Tag, m.Tag)
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

// add adds s to r in place. No other bundle may hold r.
func (r *Resource) add(s *Resource) {
	r.Scalar += s.Scalar
	if len(s.Ranges) > 0 {
		r.Ranges = r.Ranges.Union(s.Ranges)
	}
	if len(s.Set) > 0 {
		r.Set = r.Set.Union(s.Set)
	}
}

// take subtracts s from r in place. No other bundle may hold r.
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

// overlap returns what both hold, with r's label.
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

// Resources is an immutable bundle of resources. Its items are sorted by label, with one item for each label and no
// empty ones, so that equal bundles have equal items. The zero value is the empty bundle.
type Resources struct {
	items []Resource
}

// NewResources makes a bundle of items in any order. Items with the same label are added up; empty items are left out.
func NewResources(items ...Resource) Resources {
	return gather(slices.Clone(items))
}

// OwnResources is NewResources without the copy: the caller must not use the items any more.
func OwnResources(items []Resource) Resources { return gather(items) }

// gather makes a bundle of items that no other bundle holds.
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

// drop makes a bundle of sorted items, one for each label, that no other bundle holds. It leaves out the empty ones.
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

// Scalars returns a bundle of cpus and mem (in MB), the one that examples and tests need most.
func Scalars(cpus, memMB float64) Resources {
	return NewResources(
		Resource{Label: Label{Name: "cpus"}, Scalar: MilliOf(cpus)},
		Resource{Label: Label{Name: "mem"}, Scalar: MilliOf(memMB)},
	)
}

// Items returns the items in the order of their labels. The caller must not change them.
func (r Resources) Items() []Resource { return r.items }

// IsZero reports whether the bundle is empty.
func (r Resources) IsZero() bool { return len(r.items) == 0 }

// Scalar returns the amount of the resource of this name, added up over all its labels.
func (r Resources) Scalar(name string) Milli {
	var sum Milli
	for _, item := range r.items {
		if item.Name == name {
			sum += item.Scalar
		}
	}
	return sum
}

// RangesOf returns the ranges of the resource of this name, united over all its labels.
func (r Resources) RangesOf(name string) Ranges {
	var all Ranges
	for _, item := range r.items {
		if item.Name == name {
			all = all.Union(item.Ranges)
		}
	}
	return all
}

// Filter returns the items for whose label keep returns true.
func (r Resources) Filter(keep func(Label) bool) Resources {
	var kept []Resource
	for _, item := range r.items {
		if keep(item.Label) {
			kept = append(kept, item)
		}
	}
	return Resources{kept}
}

// UsableBy returns what a framework in the role may use: unreserved resources, and those that are reserved for the role
// or for one above it.
func (r Resources) UsableBy(role Role) Resources {
	return r.Filter(func(l Label) bool { return l.Reserved == "" || role.Within(l.Reserved) })
}

// HasRevocable reports whether any of the resources is revocable.
func (r Resources) HasRevocable() bool {
	for i := range r.items {
		if r.items[i].Revocable {
			return true
		}
	}
	return false
}

// Firm returns the resources that are not revocable.
func (r Resources) Firm() Resources {
	if !r.HasRevocable() {
		return r
	}
	return r.Filter(func(l Label) bool { return !l.Revocable })
}

// Revocable returns the resources that are revocable: they may be taken back at any moment.
func (r Resources) Revocable() Resources {
	if !r.HasRevocable() {
		return Resources{}
	}
	return r.Filter(func(l Label) bool { return l.Revocable })
}

// AsRevocable returns the bundle with its unreserved cpus and mem made revocable; no other resource can be. This is how
// a task asks for revocable resources.
func (r Resources) AsRevocable() Resources {
	items := slices.Clone(r.items)
	for i := range items {
		if item := &items[i]; item.Label == (Label{Name: item.Name}) && CanBeRevocable(item.Name) {
			item.Revocable = true
		}
	}
	return NewResources(items...)
}

// CanBeRevocable reports whether a resource can be revocable, which is true of cpus and mem. What a task leaves unused
// of these can serve another task meanwhile, and is free again when that task is ended. A port, a device or a disk is
// taken, whether it is used at the moment or not.
func CanBeRevocable(name string) bool { return name == "cpus" || name == "mem" }

// Plain returns the amounts without their labels, by name alone.
func (r Resources) Plain() Resources {
	items := make([]Resource, len(r.items))
	for i, item := range r.items {
		items[i] = item
		items[i].Label = Label{Name: item.Name}
	}
	return NewResources(items...)
}

// String returns the notation that [ParseResources] reads: "cpus:4;mem:1024;ports:[31000-31009]".
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

// String returns the name, with the labels in brackets: "disk(eng,volume=v1)", "cpus(revocable)".
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
	if l.Tag != "" {
		tags = append(tags, "tag="+l.Tag)
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

// Check reports why r can be neither asked for nor offered, or nil.
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

// kind returns which of the three forms the resource has: 0 a number, 1 ranges, 2 a set.
func (r *Resource) kind() int {
	switch {
	case len(r.Ranges) > 0:
		return 1
	case len(r.Set) > 0:
		return 2
	}
	return 0
}

// Check reports why r can be neither asked for nor offered, or nil.
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
	if l.Tag != "" {
		if err := checkTag(l.Tag); err != nil {
			return err
		}
	}
	switch {
	case l.Tag != "" && !l.Dynamic:
		return fmt.Errorf("%v: only a dynamic reservation can have a tag", l)
	case l.Revocable && l.Reserved != "":
		return fmt.Errorf("%v: revocable resources can't be reserved", l)
	case l.Dynamic && l.Reserved == "":
		return fmt.Errorf("%v: only a reservation can be dynamic; name its role", l)
	}
	return nil
}

// checkTag reports why a reservation can't have this tag, or nil.
func checkTag(tag string) error {
	if strings.ContainsAny(tag, notation) {
		return fmt.Errorf("the tag %q may not hold brackets, ':', ';', ',' or '='", tag)
	}
	return CheckID("the tag of a reservation", tag)
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
