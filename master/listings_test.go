package master

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// folk is a registry with agents, and how often their list was noted and looked at.
type folk struct {
	state        *registry.State
	lists        leadership
	noted, looks int
}

func newFolk(agents int) *folk {
	f := &folk{state: &registry.State{Agents: make(map[api.AgentID]registry.Agent)}}
	for i := range agents {
		id := api.AgentID(fmt.Sprint("agent-", i+1))
		f.state.Agents[id] = registry.Agent{Agent: api.Agent{ID: id, Hostname: fmt.Sprint("h", i)}}
	}
	return f
}

// page reads a page as readList does at a master that follows.
func (f *folk) page(query view.Query) view.Page[view.Agent] {
	page, err := readRows(&f.lists, "agents", query, func(c view.Cluster, q view.Query) view.Listing[view.Agent] {
		f.noted++
		return view.AgentList(c, q)
	}, func(read func(view.Cluster)) error {
		f.looks++
		read(view.Cluster{Registry: f.state, Sees: rights.All()})
		return nil
	})
	if err != nil {
		panic(err)
	}
	return page
}

// TestALongListIsNotedOnce: whoever reads on finds the place in the rows that were noted for the first page. One who
// begins, and one who comes when they are dropped, gets new ones.
func TestALongListIsNotedOnce(t *testing.T) {
	f := newFolk(2500)
	first := f.page(view.Query{})
	delete(f.state.Agents, "agent-1001")
	f.state.Agents["agent-1500-x"] = registry.Agent{}
	rest := f.page(view.Query{After: first.Next})
	last := f.page(view.Query{After: rest.Next})
	if all := slices.Concat(first.Items, rest.Items, last.Items); f.noted != 1 || len(all) != 2499 || last.Next != "" || all[1000].Agent.ID != "agent-1002" {
		t.Errorf("noted %d times, %d agents and then %q", f.noted, len(all), last.Next)
	}
	for of, one := range f.lists.listings.kept {
		f.lists.listings.drop(of, one.at)
	}
	if again := f.page(view.Query{After: first.Next}); f.noted != 2 || len(again.Items) != 1000 {
		t.Errorf("noted %d times, %d agents", f.noted, len(again.Items))
	}
	if f.page(view.Query{}); f.noted != 3 {
		t.Errorf("who begins anew is shown what was noted before: %d", f.noted)
	}
	if f.looks = 0; len(f.page(view.Query{Prefix: "agent-2500"}).Items) != 1 || f.looks != 2 {
		t.Errorf("%d looks", f.looks)
	}
}

// TestAShortListIsReadAtOnce, and not kept.
func TestAShortListIsReadAtOnce(t *testing.T) {
	f := newFolk(1000)
	if page := f.page(view.Query{Limit: 10}); f.looks != 1 || len(page.Items) != 10 || page.Next != "agent-10" || len(f.lists.listings.kept) != 0 {
		t.Errorf("%d looks, %d agents and then %q, %d kept", f.looks, len(page.Items), page.Next, len(f.lists.listings.kept))
	}
}

// TestFewListsAreKept: those that were noted last.
func TestFewListsAreKept(t *testing.T) {
	var l listings
	for i := range 3 * listingsMax {
		l.keep(listed{op: fmt.Sprint(i)}, i)
	}
	if last := l.find(listed{op: fmt.Sprint(3*listingsMax - 1)}); len(l.kept) != listingsMax || last != 3*listingsMax-1 {
		t.Errorf("%d kept, the last is %v", len(l.kept), last)
	}
}

// BenchmarkPage reads one page of many, in turns, by how long the list is.
func BenchmarkPage(b *testing.B) {
	for _, agents := range []int{1100, 20_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			f := newFolk(agents)
			next := f.page(view.Query{}).Next
			b.ReportAllocs()
			for b.Loop() {
				if page := f.page(view.Query{After: next, Limit: 50}); len(page.Items) != 50 {
					b.Fatal(len(page.Items))
				}
			}
		})
	}
}
