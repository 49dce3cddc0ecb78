package books

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Demand is what a member still wants.
type Demand struct {
	Shapes []*Shape
}

// Shape is one kind of task that is wanted.
type Shape struct {
	Spec   api.Shape
	Mould  *mould
	Ask    Amounts
	Simple bool  // it asks for plain scalars only, so amounts say everything
	known  bool  // some agent has, or had, every kind that it asks for
	Count  int64 // how many are still wanted, as last told; the core counts launches off
	Open   int64 // how many there are in open offers
	Asked  int64 // for how many of it tasks of others were asked back
	// Revocable says that a part of it is asked for as revocable.
	Revocable bool
	Gate      *Gate
	near      []api.AgentID // preferred, sorted
	Places    []*places     // for each kind of place that it is spread over
	helping   int64         // for how many of it helped is
	helped    api.Resources // the resources of that many of it, see Times
}

// mould is what several shapes ask for in common: if it does not fit for one of them, it is not tried for the others.
type mould struct {
	key    string
	shapes int
	Failed uint64 // the turn in which it did not fit into what was left of the agent
}

func (w *wishes) mouldOf(resources api.Resources) *mould {
	key := resources.String()
	m := w.Moulds[key]
	if m == nil {
		m = &mould{key: key}
		w.Moulds[key] = m
	}
	m.shapes++
	return m
}

// ForgetShape drops the shape's use of what it shares with others.
func (b *Books) ForgetShape(s *Shape, m *Member) {
	b.SetGate(&s.Gate, "", m.Role)
	b.spread(s, m, nil, "")
	b.prefer(s.near, -1)
	if s.Mould.shapes--; s.Mould.shapes == 0 {
		delete(b.Moulds, s.Mould.key)
	}
}

// Planned is for how many of a shape an open offer was sized.
type Planned struct {
	Member int32
	Shape  *Shape
	N      int64
}

// Left returns how many may still be offered.
func (s *Shape) Left() int64 { return max(0, s.Count-s.Open) }

// Wants reports whether anything may still be offered.
func (d *Demand) Wants() bool {
	return slices.ContainsFunc(d.Shapes, func(s *Shape) bool { return s.Left() > 0 })
}

// WantsMore reports whether the demand that is stated now wants more than is left of the one before; nil = it states
// none.
func (m *Member) WantsMore(specs []api.Shape) bool {
	if m.Demand == nil || specs == nil {
		return allocator.DemandGrows(m.left(), specs)
	}
	return !m.wantsNoMore(specs) && allocator.DemandGrows(m.left(), specs)
}

// left returns what the member still wants; nil if it states no demand.
func (m *Member) left() []api.Shape {
	if m.Demand == nil {
		return nil
	}
	shapes := make([]api.Shape, len(m.Demand.Shapes))
	for i, s := range m.Demand.Shapes {
		shapes[i] = s.Spec
		shapes[i].Count = s.Count
	}
	return shapes
}

// wantsNoMore recognises the common case quickly: shape by shape the new demand is no larger.
func (m *Member) wantsNoMore(specs []api.Shape) bool {
	if len(specs) > len(m.Demand.Shapes) {
		return false
	}
	for i, spec := range specs {
		s := m.Demand.Shapes[i]
		if !s.Is(spec) || spec.Count > s.Count || s.Spec.OnlyPreferred && !spec.OnlyPreferred {
			return false
		}
	}
	return true
}

// Is reports whether both ask for the same on the same agents, for the same group.
func (s *Shape) Is(spec api.Shape) bool {
	return s.Spec.Constraint == spec.Constraint && s.Spec.Group == spec.Group && s.Spec.Resources.Equal(spec.Resources)
}

func (b *Books) NewShape(m *Member, spec api.Shape) *Shape {
	s := &Shape{Simple: true, Mould: b.mouldOf(spec.Resources), Revocable: spec.Resources.HasRevocable()}
	for _, item := range spec.Resources.Items() {
		s.Simple = s.Simple && item.Scalar != 0 && item.Label == api.Label{Name: item.Name}
	}
	b.SetGate(&s.Gate, spec.Constraint, m.Role)
	return s
}

// Respecify takes over what may differ between two shapes that ask for the same. It reports whether something may be
// offered now that could not be offered before.
func (b *Books) Respecify(s *Shape, m *Member, spec api.Shape) (more bool) {
	more = spec.Count > s.Count || spec.OnlyPreferred != s.Spec.OnlyPreferred
	if !slices.Equal(spec.Preferred, s.Spec.Preferred) {
		more = true
		b.prefer(s.near, -1)
		s.near = slices.Sorted(slices.Values(spec.Preferred))
		b.prefer(s.near, +1)
	}
	if !slices.Equal(spec.Spread, s.Spec.Spread) {
		more = true
		b.spread(s, m, spec.Spread, spec.Group)
	}
	s.Spec, s.Count = spec, max(spec.Count, 0)
	return more
}

// AskOf returns what one of the shape takes; false as long as no agent has all its kinds. Kinds are looked up until all
// are known, because a framework's demand must not introduce new kinds.
func (b *Books) AskOf(s *Shape) (Amounts, bool) {
	if s.known {
		return s.Ask, true
	}
	for _, item := range s.Spec.Resources.Items() {
		if _, known := b.Kinds.Numbers[item.Name]; !known {
			return nil, false
		}
	}
	s.Ask, s.known = b.Kinds.CountAll(nil, s.Spec.Resources), true
	return s.Ask, true
}

// prefer adds n to the number of shapes by which each agent is preferred.
func (w *wishes) prefer(ids []api.AgentID, n int) {
	for _, id := range ids {
		if w.Preferred[id] += n; w.Preferred[id] == 0 {
			delete(w.Preferred, id)
		}
	}
}

// IsNear reports whether the shape prefers the agent.
func (s *Shape) IsNear(a *Agent) bool {
	_, found := slices.BinarySearch(s.near, a.Spec.ID)
	return found
}

// Wishes describes the first few shapes that are still wanted.
func (m *Member) Wishes() string {
	var words []string
	for _, s := range m.Demand.Shapes {
		if s.Left() == 0 {
			continue
		}
		if len(words) == 3 {
			words = append(words, "...")
			break
		}
		words = append(words, s.Spec.Resources.String()+spreadWords(s.Spec.Spread))
	}
	return strings.Join(words, " or ")
}

// spreadWords describes over which places the tasks are spread; "" if they are not.
func spreadWords(spread []api.Spread) string {
	var words strings.Builder
	for _, one := range spread {
		fmt.Fprintf(&words, ", spread by %s", one.By.Words())
		if one.Most > 0 {
			fmt.Fprintf(&words, " with at most %d in each", one.Most)
		}
	}
	return words.String()
}

// Times returns the resources of n of the shape. The last answer is kept, because helpings of the same size follow each
// other.
func (s *Shape) Times(n int64) api.Resources {
	if n != s.helping || n == 1 {
		s.helping, s.helped = n, times(s.Spec.Resources, n)
	}
	return s.helped
}

// times returns n times simple resources.
func times(resources api.Resources, n int64) api.Resources {
	if n == 1 {
		return resources
	}
	items := make([]api.Resource, len(resources.Items()))
	for i, item := range resources.Items() {
		items[i] = item
		items[i].Scalar *= api.Milli(n)
	}
	return api.NewResources(items...)
}

// LacksVolume returns a volume that the shape asks for and that the agent has not, or not for the member's role; "":
// there is none.
func (s *Shape) LacksVolume(m *Member, a *Agent) api.VolumeID {
	if s.Simple || !s.WantsVolume() {
		return ""
	}
	return s.Spec.Resources.LackingVolume(UsableBy(m, a.Spec.Total))
}

// WantsVolume reports whether the shape asks for a volume.
func (s *Shape) WantsVolume() bool { return s.Spec.Resources.LackingVolume(api.Resources{}) != "" }
