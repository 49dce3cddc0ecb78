package core

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// frameworkRow is a framework of the leader's, or a tombstone that only the registry has.
type frameworkRow struct {
	id    api.FrameworkID
	live  *framework
	known registry.Framework
}

func (r frameworkRow) state() string {
	switch {
	case r.live == nil || r.live.removed:
		return "removed"
	case r.live.session != nil:
		return "active"
	}
	return "disconnected"
}

// Frameworks returns a page of the frameworks; removed ones only when the query asks
// for all or for that state.
func (c *Core) Frameworks(query Query) Page[FrameworkView] {
	var rows []frameworkRow
	for id, fw := range c.frameworks { // order: irrelevant because paged sorts
		rows = append(rows, frameworkRow{id, fw, c.registry.Frameworks[id]})
	}
	if query.All || slices.ContainsFunc(query.States, func(state string) bool { return state == "removed" || state == "REMOVED" }) {
		for id, known := range c.registry.Frameworks { // order: irrelevant because paged sorts
			if c.frameworks[id] == nil {
				rows = append(rows, frameworkRow{id, nil, known})
			}
		}
	}
	rows = slices.DeleteFunc(rows, func(row frameworkRow) bool { return !wantsFramework(query, row) })
	shares := c.policy.Shares()
	return paged(query, rows, func(row frameworkRow) string { return string(row.id) }, func(row frameworkRow) FrameworkView {
		view := showFramework(row)
		view.DominantShare = shares.Frameworks[row.id]
		return view
	})
}

func wantsFramework(query Query, row frameworkRow) bool {
	info := row.info()
	return (query.Framework == "" || query.Framework == row.id) && query.wantsName(string(row.id), info.Name) &&
		query.wantsState(row.state()) && (query.Role == "" || slices.Contains(info.Roles, query.Role)) &&
		(query.Agent == "" || row.live != nil && row.live.on(query.Agent))
}

func (r frameworkRow) info() api.Framework {
	if r.live != nil {
		return r.live.info
	}
	return r.known.Framework
}

// on says whether the framework has something on the agent.
func (fw *framework) on(id api.AgentID) bool {
	for _, t := range fw.tasks { // order: irrelevant because one is enough
		if t.agent.id == id {
			return true
		}
	}
	return false
}

func showFramework(row frameworkRow) FrameworkView {
	view := FrameworkView{
		Framework: row.info(),
		State:     row.state(),
		Since:     row.known.Removed,
		Why:       row.known.Why,
		Instance:  row.known.Instance,
		Session:   row.known.Session,
		Admitted:  row.known.Admitted,
	}
	fw := row.live
	if fw == nil {
		return view
	}
	view.Since, view.Why = fw.since, fw.why
	if fw.refused != "" {
		view.Why += "; its scheduler is refused: " + fw.refused
	}
	view.Suppressed = sortedKeys(fw.suppressed)
	view.Allocated, view.Offered = fw.sums()
	view.Offers = len(fw.offers)
	view.Placed = fw.placed
	for _, t := range fw.tasks { // order: irrelevant because it counts
		if t.held {
			view.Tasks++
		}
	}
	for _, role := range sortedKeys(fw.demand) {
		view.Demand = append(view.Demand, api.Demand{Role: role, Shapes: fw.demand[role]})
	}
	return view
}

// sums are what it has in all roles; scalars only, for ranges of many agents can't be
// added up.
func (fw *framework) sums() (used, offered api.Resources) {
	for _, b := range fw.books { // order: irrelevant because it sums
		used = used.Plus(b.used.resources())
		offered = offered.Plus(b.offered.resources())
	}
	return used, offered
}
