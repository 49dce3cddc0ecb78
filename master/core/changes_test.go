package core_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/view"
)

// follower keeps a copy of the leader's lists by what the core notes. It reads again only what was noted.
type follower struct {
	agents     map[api.AgentID]view.Agent
	frameworks map[api.FrameworkID]view.Framework
	tasks      map[api.TaskRef]view.Task
	offers     map[api.OfferID]view.Offer
	dirty      map[any]bool
	seen       map[change.Kind]map[change.What]int
	wrong      error // a word that is in no list
	seldom     bool  // it is compared with the lists when the test asks for it, and not after each step
}

func newFollower() *follower {
	f := &follower{seen: make(map[change.Kind]map[change.What]int)}
	f.forget()
	return f
}

// forget begins anew, as with a new leader.
func (f *follower) forget() {
	f.agents, f.frameworks = make(map[api.AgentID]view.Agent), make(map[api.FrameworkID]view.Framework)
	f.tasks, f.offers, f.dirty = make(map[api.TaskRef]view.Task), make(map[api.OfferID]view.Offer), make(map[any]bool)
}

// begin reads everything.
func (f *follower) begin(c *core.Core) {
	f.forget()
	f.agents, f.frameworks, f.tasks, f.offers = listed(c)
}

func listed(c *core.Core) (map[api.AgentID]view.Agent, map[api.FrameworkID]view.Framework, map[api.TaskRef]view.Task, map[api.OfferID]view.Offer) {
	agents, frameworks := make(map[api.AgentID]view.Agent), make(map[api.FrameworkID]view.Framework)
	tasks, offers := make(map[api.TaskRef]view.Task), make(map[api.OfferID]view.Offer)
	v := c.View()
	for _, a := range v.Agents(view.Query{}).Items {
		agents[a.Agent.ID] = a
	}
	for _, fw := range v.Frameworks(view.Query{}).Items {
		frameworks[fw.Framework.ID] = fw
	}
	for _, t := range v.Tasks(view.Query{}).Items {
		tasks[api.TaskRef{Framework: t.Framework, Task: t.Task.ID}] = t
	}
	for _, o := range v.Offers(view.Query{}).Items {
		offers[o.Offer.ID] = o
	}
	return agents, frameworks, tasks, offers
}

// note takes what the core has noted.
func (f *follower) note(records []change.Record) {
	for _, r := range records {
		if r.IsEvent() {
			if f.seen[r.Kind] == nil {
				f.seen[r.Kind] = make(map[change.What]int)
			}
			f.seen[r.Kind][r.What]++
			if !slices.Contains(change.Whats[r.Kind], r.What) {
				f.wrong = fmt.Errorf("the core notes that %s %s was %q, a word that its list lacks", r.Kind, r.Of(), r.What)
			}
		}
		for key := range r.Touches() {
			f.dirty[key] = true
		}
	}
}

// catchUp reads again what was noted since the last call.
func (f *follower) catchUp(c *core.Core) {
	v := c.View()
	for key := range f.dirty {
		switch key := key.(type) {
		case api.AgentID:
			renew(f.agents, key, v.OneAgent)
		case api.FrameworkID:
			renew(f.frameworks, key, func(id api.FrameworkID) (view.Framework, bool) { return v.OneFramework(id, allocator.Shares{}) })
		case api.TaskRef:
			renew(f.tasks, key, v.OneTask)
		case api.OfferID:
			renew(f.offers, key, v.OneOffer)
		}
	}
	clear(f.dirty)
}

func renew[K comparable, V any](all map[K]V, key K, read func(K) (V, bool)) {
	if v, there := read(key); there {
		all[key] = v
	} else {
		delete(all, key)
	}
}

// check compares the copy with the lists.
func (f *follower) check(c *core.Core) error {
	f.catchUp(c)
	agents, frameworks, tasks, offers := listed(c)
	for _, all := range []map[api.AgentID]view.Agent{agents, f.agents} { // figures of use are as they were when something else changed
		for id, a := range all {
			a.Usage, a.Revocable, a.Occupied, a.Free = protocol.UsageReport{}, api.Resources{}, api.Resources{}, a.Free.Firm()
			all[id] = a
		}
	}
	for _, all := range []map[api.FrameworkID]view.Framework{frameworks, f.frameworks} {
		for id, fw := range all {
			fw.DominantShare, fw.FailoverEnds = 0, fw.Since
			all[id] = fw
		}
	}
	for _, all := range []map[api.TaskRef]view.Task{tasks, f.tasks} {
		for ref, t := range all {
			t.Usage, t.Status.Previous = api.Usage{}, 0
			all[ref] = t
		}
	}
	for _, all := range []map[api.OfferID]view.Offer{offers, f.offers} { // lists do not show these
		for id, o := range all {
			o.Offer.Executors, o.Offer.Unavailable = nil, nil
			all[id] = o
		}
	}
	return cmp.Or(f.wrong, differ("agent", f.agents, agents), differ("framework", f.frameworks, frameworks), differ("task", f.tasks, tasks), differ("offer", f.offers, offers))
}

func differ[K comparable, V any](kind string, have, want map[K]V) error {
	keys := maps.Clone(have)
	maps.Copy(keys, want)
	for key := range keys {
		h, has := have[key]
		w, wants := want[key]
		if has != wants || fmt.Sprintf("%+v", h) != fmt.Sprintf("%+v", w) && !reflect.DeepEqual(h, w) {
			return fmt.Errorf("who follows the notes has %s %v as\n  %v %+v\nand the list as\n  %v %+v", kind, key, has, h, wants, w)
		}
	}
	return nil
}
