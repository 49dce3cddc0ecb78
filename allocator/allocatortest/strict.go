package allocatortest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"pgregory.net/rapid"
)

// Strict checks that a policy has strict priorities: nothing is offered to a role while a role of higher priority would
// take it.
func Strict(t *testing.T, fresh func() allocator.Allocator) {
	rapid.Check(t, func(t *rapid.T) {
		s := &strict{history: &history{Cluster: NewCluster(t, fresh()), t: t}}
		for i := range rapid.IntRange(2, 4).Draw(t, "frameworks") {
			id := api.FrameworkID(fmt.Sprintf("f%d", i))
			role := allocator.Role{Role: api.Role(fmt.Sprintf("r%d", i)), Priority: rapid.IntRange(0, 2).Draw(t, "priority")}
			s.Role(role)
			s.Framework(id, role.Role)
			s.all = append(s.all, id)
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
			s.Agent(api.AgentID(fmt.Sprintf("a%d", i)), fmt.Sprintf("cpus:%d;mem:4096", rapid.IntRange(1, 4).Draw(t, "cpus")))
		}
		for range 25 {
			s.step()
			for _, o := range s.Allocate() {
				s.overtakes(o)
			}
		}
	})
}

// strict is a history in which each framework has a role of its own.
type strict struct {
	*history
	all []api.FrameworkID
}

func (s *strict) step() {
	id := pick(s.history, "framework", s.all)
	switch rapid.IntRange(0, 6).Draw(s.t, "what") {
	case 0:
		s.Demand(id, s.role(id), s.Shape(fmt.Sprintf("cpus:%d;mem:64", rapid.IntRange(1, 3).Draw(s.t, "cpus")), int64(rapid.IntRange(0, 3).Draw(s.t, "count"))))
	case 1:
		s.Revive(id)
	case 2, 3:
		if len(s.Tasks) > 0 {
			s.Finish(pick(s.history, "task", s.Tasks))
		}
	default:
		s.reply()
	}
}

func (s *strict) role(id api.FrameworkID) api.Role { return s.Frameworks[id].Roles[0] }

// reply launches one task from an offer, or declines it. A framework without a demand declines for an hour, because
// otherwise it would let the others go first.
func (s *strict) reply() {
	if len(s.Offers) == 0 {
		return
	}
	o := pick(s.history, "offer", s.Offers)
	shapes, stated := s.demand[key(o.Framework, o.Role)]
	task := s.R("cpus:1;mem:64")
	if stated && len(shapes) > 0 {
		task = shapes[0].Resources
	}
	if _, _, fits := o.Resources.Carve(task); fits && rapid.Bool().Draw(s.t, "launches") {
		s.Accept(o, 0, task)
		return
	}
	refuse := time.Hour
	if stated {
		refuse = pick(s.history, "refuse", []time.Duration{0, time.Hour})
	}
	s.Decline(o, refuse)
}

// overtakes fails if a framework of higher priority would have taken the offer. What preemption has freed is kept for
// the demand that asked for it, whoever else wants it since (R27).
func (s *strict) overtakes(o allocator.Claim) {
	if slices.ContainsFunc(s.Inverse, func(i allocator.Inverse) bool { return i.For == o.Framework && i.Agent == o.Agent }) {
		return
	}
	for _, id := range s.all {
		role := s.role(id)
		if s.Roles[role].Priority <= s.Roles[o.Role].Priority {
			continue
		}
		filtered := slices.ContainsFunc(s.filters, func(f filter) bool { return f.claim.Framework == id && f.claim.Agent == o.Agent })
		if !filtered && s.wants(id, role, o.Resources) {
			s.Fatalf("%s is offered to %s although %s of higher priority wants it", o.Resources, o.Framework, id)
		}
	}
}

// wants reports whether the framework would take one more task from what is offered.
func (s *strict) wants(id api.FrameworkID, role api.Role, offered api.Resources) bool {
	shapes, stated := s.demand[key(id, role)]
	if !stated {
		return true
	}
	for _, shape := range shapes {
		left := shape.Count
		for _, o := range s.Offers {
			for rest := o.Resources; o.Framework == id; left-- {
				_, less, fits := rest.Carve(shape.Resources)
				if !fits {
					break
				}
				rest = less
			}
		}
		if left > 0 && offered.Contains(shape.Resources) {
			return true
		}
	}
	return false
}
