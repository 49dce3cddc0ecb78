package inputs

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

const (
	// filtersPerPlaceMax bounds the filters of one framework in one role on one agent. Beyond it the oldest is dropped,
	// and the agent is offered once more.
	filtersPerPlaceMax = 8
	// filtersMax bounds all filters together. A further one is not remembered: a policy that is told the mirror's
	// inputs then offers that agent to that framework once more.
	filtersMax = 1_000_000
)

// filters holds the filters that refusals have left, and counts them.
type filters struct {
	of  map[memberKey]*left
	all int
	by  map[string]int // number of filters of each principal's frameworks; not counted for the empty principal
	max int            // filtersMax, or less in a test
}

// left holds the filters of one framework in one role.
type left struct {
	principal string // the framework's principal
	on        map[api.AgentID][]Refuse
}

// leave adds a filter.
func (f *filters) leave(key placeKey, principal string, filter Refuse) {
	one := f.of[key.memberKey]
	if one != nil && len(one.on[key.agent]) >= filtersPerPlaceMax {
		one.on[key.agent] = append(slices.Delete(one.on[key.agent], 0, 1), filter)
		return
	}
	if f.all >= f.max {
		return
	}
	if one == nil {
		one = &left{principal, make(map[api.AgentID][]Refuse)}
		f.of[key.memberKey] = one
	}
	one.on[key.agent] = append(one.on[key.agent], filter)
	f.count(one, 1)
}

func (f *filters) count(of *left, more int) {
	f.all += more
	if of.principal == "" || more == 0 {
		return
	}
	if f.by[of.principal] += more; f.by[of.principal] == 0 {
		delete(f.by, of.principal)
	}
}

// belong counts the filters of a framework for the principal to which it belongs now.
func (f *filters) belong(id api.FrameworkID, principal string) {
	for key, one := range f.of { // order: irrelevant because each is counted by itself
		if key.framework != id || one.principal == principal {
			continue
		}
		had := f.all
		for _, list := range one.on { // order: irrelevant because it counts
			f.count(one, -len(list))
		}
		one.principal = principal
		f.count(one, had-f.all)
	}
}

// forget drops all filters of a framework in a role.
func (f *filters) forget(key memberKey) {
	one := f.of[key]
	if one == nil {
		return
	}
	for _, list := range one.on { // order: irrelevant because it counts
		f.count(one, -len(list))
	}
	delete(f.of, key)
}

// forgetIf drops all filters of the frameworks and roles for which picked returns true.
func (f *filters) forgetIf(picked func(memberKey) bool) {
	for key := range f.of { // order: irrelevant because each is dropped by itself
		if picked(key) {
			f.forget(key)
		}
	}
}

// forgetAt drops the filters of a framework in a role on one agent.
func (f *filters) forgetAt(key memberKey, agent api.AgentID) {
	one := f.of[key]
	if one == nil {
		return
	}
	f.count(one, -len(one.on[agent]))
	if delete(one.on, agent); len(one.on) == 0 {
		delete(f.of, key)
	}
}

// forgetAgent drops all filters on one agent.
func (f *filters) forgetAgent(agent api.AgentID) {
	for key := range f.of { // order: irrelevant because each is changed by itself
		f.forgetAt(key, agent)
	}
}

// expire drops the filters that have ended.
func (f *filters) expire(now time.Time) {
	ended := func(r Refuse) bool { return !now.Before(r.Until) }
	for key, one := range f.of { // order: irrelevant because each is changed by itself
		for agent, list := range one.on { // order: irrelevant because each is changed by itself
			rest := slices.DeleteFunc(list, ended)
			f.count(one, len(rest)-len(list))
			if one.on[agent] = rest; len(rest) == 0 {
				delete(one.on, agent)
			}
		}
		if len(one.on) == 0 {
			delete(f.of, key)
		}
	}
}

// inputs returns refusals that leave the same filters.
func (f *filters) inputs() (all []Input) {
	for _, key := range slices.SortedFunc(maps.Keys(f.of), compareMembers) {
		on := f.of[key].on
		for _, agent := range slices.Sorted(maps.Keys(on)) {
			for _, filter := range on[agent] {
				all = append(all, filter)
			}
		}
	}
	return all
}
