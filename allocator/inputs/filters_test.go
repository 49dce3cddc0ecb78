package inputs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

var begun = time.Unix(1_000_000, 0)

func framework(id api.FrameworkID, principal string, roles ...api.Role) SetFramework {
	return SetFramework{allocator.Framework{Framework: api.Framework{ID: id, Principal: principal, Roles: roles}, Active: true}}
}

func refusal(id api.FrameworkID, role api.Role, agent int, until time.Time) Refuse {
	return Refuse{allocator.Claim{Framework: id, Role: role, Agent: api.AgentID(fmt.Sprint("a", agent))}, until}
}

// filtersIn counts the filters of which a fresh policy would be told.
func filtersIn(m *Mirror) (count int) {
	for _, input := range m.Inputs() {
		if _, is := input.(Refuse); is {
			count++
		}
	}
	return count
}

// TestFiltersAreBounded: the bound holds over all frameworks. A filter beyond it is not remembered, and filters that
// have ended make room.
func TestFiltersAreBounded(t *testing.T) {
	m := NewMirror()
	m.filters.max = 10
	for i := range 3 {
		m.Note(framework(api.FrameworkID(fmt.Sprint("f", i)), "etl", "r"))
		for agent := range 5 {
			m.Note(refusal(api.FrameworkID(fmt.Sprint("f", i)), "r", agent, begun.Add(time.Duration(i+1)*time.Second)))
		}
	}
	if remembered := filtersIn(m); remembered != 10 || m.Filters("etl") != 10 {
		t.Errorf("%d are remembered, %d counted of their principal; want 10", remembered, m.Filters("etl"))
	}
	m.Forget(begun.Add(time.Second)) // the filters of f0 have ended
	m.Note(refusal("f2", "r", 0, begun.Add(time.Hour)))
	if remembered := filtersIn(m); remembered != 6 || m.Filters("etl") != 6 {
		t.Errorf("%d are remembered, %d counted; want 6", remembered, m.Filters("etl"))
	}
}

// TestFiltersAreCounted: whatever happens, the counts agree with the filters that are remembered.
func TestFiltersAreCounted(t *testing.T) {
	for seed := range uint64(50) {
		draw := rand.New(rand.NewPCG(seed, 0))
		m := NewMirror()
		id := func() api.FrameworkID { return api.FrameworkID(fmt.Sprint("f", draw.IntN(4))) }
		for step := range 300 {
			switch who := id(); draw.IntN(16) {
			case 0:
				m.Note(framework(who, []string{"", "etl", "web"}[draw.IntN(3)], []api.Role{"r", "s"}[:1+draw.IntN(2)]...))
			case 1:
				m.Note(RemoveFramework{who})
			case 2:
				m.Note(Revive{who, nil})
			case 3:
				m.Note(RemoveAgent{api.AgentID(fmt.Sprint("a", draw.IntN(5)))})
			case 4:
				m.Forget(begun.Add(time.Duration(step) * time.Second))
			case 5:
				m.Note(SetDemand{who, "r", make([]api.Shape, draw.IntN(3))})
			case 6:
				claim := refusal(who, "r", draw.IntN(5), begun).Claim
				claim.Task = "t"
				m.Note(Take{claim})
				m.Note(Return{claim})
			default:
				m.Note(refusal(who, []api.Role{"r", "s"}[draw.IntN(2)], draw.IntN(5), begun.Add(time.Duration(step+draw.IntN(50))*time.Second)))
			}
			by := map[string]int{}
			for _, one := range m.filters.of {
				for _, list := range one.on {
					if one.principal != "" {
						by[one.principal] += len(list)
					}
				}
			}
			if m.filters.all != filtersIn(m) || fmt.Sprint(by) != fmt.Sprint(m.filters.by) {
				t.Fatalf("seed %d, step %d: %d and %v are counted, %d and %v remembered", seed, step, m.filters.all, m.filters.by, filtersIn(m), by)
			}
		}
	}
}

// TestFiltersOfARoleThatWasLeftAreForgotten: when a framework leaves a role, its filters there are forgotten, so a
// later policy is not told of them.
func TestFiltersOfARoleThatWasLeftAreForgotten(t *testing.T) {
	m := NewMirror()
	m.Note(framework("f", "etl", "r", "s"))
	m.Note(refusal("f", "r", 1, begun.Add(time.Hour)))
	m.Note(refusal("f", "s", 1, begun.Add(time.Hour)))
	m.Note(framework("f", "etl", "s"))
	if remembered := filtersIn(m); remembered != 1 {
		t.Errorf("%d are remembered, want that of the role that it kept", remembered)
	}
}
