package engine

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/engine/internal/books"
	"github.com/tenderhq/tender/api"
)

// byShare is a policy like fairshare, and byPriority one like priority. This package can't import those two.
var (
	byShare    = Policy{Share: largestPart, Next: partByWeight}
	byPriority = Policy{
		Share: largestPart, Next: partByWeight,
		Rank:         func(_ api.Role, priority int) int { return priority },
		Yields:       func(t Task, to Standing) bool { return t.Priority < to.Priority },
		YieldsSooner: func(a, b Task) int { return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since)) },
	}
)

func largestPart(held, total books.Amounts) float64 {
	part := 0.0
	for kind, x := range held {
		if x > 0 && total.At(kind) > 0 {
			part = max(part, float64(x)/float64(total.At(kind)))
		}
	}
	return part
}

func partByWeight(held, total books.Amounts, weight float64) float64 {
	return largestPart(held, total) / weight
}

// A policy that orders by a function of its own can ask tasks back as well. Here a framework that joined later gives
// way to one that joined before, and loses its youngest task first.
func TestLaterGivesWay(t *testing.T) {
	e := New(allocator.Config{}, Policy{
		Share:        largestPart,
		Less:         func(a, b Standing) bool { return a.Joined < b.Joined },
		Yields:       func(t Task, to Standing) bool { return t.Joined > to.Joined },
		YieldsSooner: func(a, b Task) int { return b.Since.Compare(a.Since) },
	})
	now := time.Unix(1000, 0)
	e.SetAgent(allocator.Agent{ID: "a", Total: api.Scalars(2, 2048), Offerable: true})
	for _, id := range []api.FrameworkID{"early", "late"} {
		e.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Name: string(id), Roles: []api.Role{"r"}}, Active: true})
		e.SetDemand(id, "r", []api.Shape{})
	}
	for i, task := range []api.TaskID{"old", "young"} {
		e.Take(allocator.Claim{
			Framework: "late", Role: "r", Agent: "a", Resources: api.Scalars(1, 1024), Task: task, Since: now.Add(time.Duration(i) * time.Second),
		})
	}
	e.SetDemand("early", "r", []api.Shape{{Resources: api.Scalars(1, 1024), Count: 1}})
	asked := e.Allocate(now.Add(time.Minute)).Inverse
	if len(asked) != 1 || asked[0].For != "early" || len(asked[0].Victims) != 1 || asked[0].Victims[0].Task != "young" {
		t.Fatalf("asked back: %v; want the young task of the late one", asked)
	}
	e.Return(asked[0].Victims[0])
	made := e.Allocate(now.Add(2 * time.Minute))
	if len(made.Offers) != 1 || made.Offers[0].Framework != "early" {
		t.Fatalf("offered: %v; want what was freed to the early one", made.Offers)
	}
	e.SetDemand("late", "r", []api.Shape{{Resources: api.Scalars(1, 1024), Count: 1}})
	if asked := e.Allocate(now.Add(3 * time.Minute)).Inverse; len(asked) > 0 {
		t.Errorf("the late one has tasks asked back: %v", asked)
	}
	if why := e.Explain("late", "a", now.Add(3*time.Minute)).Reasons[0]; !strings.Contains(why, "its last offer went to early in role r: the policy puts it first") {
		t.Errorf("explained: %s", why)
	}
}

// A policy that lacks something it needs is refused when it is made, not when it is first asked.
func TestPolicyIsWhole(t *testing.T) {
	for want, policy := range map[string]Policy{
		"Share":        {Next: partByWeight},
		"Next or Less": {Share: largestPart},
		"YieldsSooner": {Share: largestPart, Next: partByWeight, Yields: func(Task, Standing) bool { return true }},
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, want) {
					t.Errorf("without %s: %s", want, said)
				}
			}()
			New(allocator.Config{}, policy)
		}()
	}
}

// Frameworks of `tender run` are named by their commands, so two of the same name are told apart by their IDs.
func TestHoldersOfOneName(t *testing.T) {
	e := New(allocator.Config{}, byShare)
	e.SetAgent(allocator.Agent{ID: "a", Total: api.Scalars(4, 4096), Offerable: true})
	for i, id := range []api.FrameworkID{"f1", "f2", "f3"} {
		e.SetFramework(allocator.Framework{Framework: api.Framework{ID: id, Name: "sleep", Roles: []api.Role{"r"}}, Active: true})
		if i < 2 {
			e.Take(allocator.Claim{Framework: id, Role: "r", Agent: "a", Resources: api.Scalars(float64(3-2*i), 1024)})
		}
	}
	e.SetDemand("f3", "r", []api.Shape{{Resources: api.Scalars(1, 32), Count: 1}})
	if why := e.Explain("f3", "", time.Unix(1000, 0)).Reasons[0]; !strings.HasPrefix(why, "a fits and is full: sleep (f1) holds 3, sleep (f2) holds 1 of 4 cpus") {
		t.Errorf("explained: %s", why)
	}
}
