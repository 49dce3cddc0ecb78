package view

import (
	"iter"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// The states of a framework. A follower only knows which frameworks are removed.
const (
	Active       = "active"
	Disconnected = "disconnected"
	Removed      = "removed"
)

// Framework is a framework as people see it. Every master knows the part that is from the registry.
type Framework struct {
	// From the registry.
	Framework api.Framework
	Instance  api.Nonce
	Session   uint64
	Admitted  time.Time

	State         string
	Since         time.Time
	Why           string
	Refused       string // why the version of its scheduler is refused
	FailoverEnds  time.Time
	Suppressed    []api.Role
	Allocated     api.Resources
	Offered       api.Resources
	DominantShare float64
	Tasks         int // that hold resources
	Offers        int
	Demand        []api.Demand
	Placed        Placements
}

// FrameworkBrief has the fields by which frameworks are selected and counted.
type FrameworkBrief struct {
	ID     api.FrameworkID
	Name   string
	Roles  []api.Role
	State  string // unknownState on a follower: it is not removed
	Placed Placements
}

// Holding is what a framework uses and is offered in one role.
type Holding struct {
	Role          api.Role
	Used, Offered api.Resources
}

// FrameworkList notes the frameworks. Removed ones of which nothing runs are included only when the query asks for all, or
// for that state.
func FrameworkList(c Cluster, _ Query) Listing[Framework] {
	list := &listing[api.FrameworkID, Framework]{name: func(id api.FrameworkID) string { return string(id) }}
	list.reader = func(c Cluster, query *Query) func(api.FrameworkID) (Framework, bool) {
		var shares map[api.FrameworkID]float64
		if c.Leader != nil {
			shares = c.Leader.Shares().Frameworks
		}
		return func(id api.FrameworkID) (Framework, bool) {
			if !c.listsFramework(query, id) {
				return Framework{}, false
			}
			f := c.framework(id)
			if !c.wantsFramework(query, &FrameworkBrief{ID: id, Name: f.Framework.Name, Roles: f.Framework.Roles, State: f.State}) {
				return Framework{}, false
			}
			f.DominantShare = shares[id]
			return f, true
		}
	}
	for id := range c.Registry.Frameworks { // order: irrelevant because rows are sorted
		list.note(id)
	}
	for f := range c.frameworks() {
		if _, is := c.Registry.Frameworks[f.ID]; !is {
			list.note(f.ID)
		}
	}
	return list
}

// listsFramework reports whether the framework is in the list: it is not removed, something of it still runs, or the
// query asks for removed ones too, which are on no agent.
func (c Cluster) listsFramework(query *Query, id api.FrameworkID) bool {
	known, is := c.Registry.Frameworks[id]
	if _, lives := c.known(id); lives || !is {
		return lives
	}
	removed := query.Agent == "" && (query.All || len(query.States) > 0 && query.wantsState(Removed))
	return removed || c.Leader == nil && known.Removed.IsZero()
}

func (c Cluster) wantsFramework(query *Query, f *FrameworkBrief) bool {
	return c.seesFramework(f.ID) && (query.Framework == "" || query.Framework == f.ID) && query.wantsName(string(f.ID), f.Name) &&
		(query.wantsState(f.State) || f.State == unknownState && (query.wantsState(Active) || query.wantsState(Disconnected))) &&
		(query.Role == "" || slices.Contains(f.Roles, query.Role)) &&
		(query.Agent == "" || c.mayRun(query.Agent, f.ID))
}

// frameworks returns those that are not removed, and at the leader also removed ones of which something runs.
func (c Cluster) frameworks() iter.Seq[FrameworkBrief] {
	if c.Leader != nil {
		return c.Leader.Frameworks()
	}
	return func(yield func(FrameworkBrief) bool) {
		for _, known := range c.Registry.Frameworks { // order: irrelevant because whoever asks sorts
			if known.Removed.IsZero() && !yield(briefOf(known, unknownState)) {
				return
			}
		}
	}
}

func briefOf(known registry.Framework, state string) FrameworkBrief {
	return FrameworkBrief{ID: known.Framework.ID, Name: known.Framework.Name, Roles: known.Framework.Roles, State: state}
}

// Endpoint is where a framework can be reached.
type Endpoint struct {
	Framework api.FrameworkID
	Name      string   // of the framework
	Role      api.Role // the first of its roles
	Address   string
	Active    bool
}

// Endpoints returns the endpoints with that name, whether or not the caller may see their frameworks. It looks at no
// tasks, so it may be called for every forwarded call.
func (c Cluster) Endpoints(name string) (list []Endpoint) {
	for f := range c.frameworks() {
		if at := c.Registry.Frameworks[f.ID].Framework.Endpoints[name]; at != "" && f.State != Removed {
			one := Endpoint{Framework: f.ID, Name: f.Name, Address: at, Active: f.State == Active}
			if len(f.Roles) > 0 {
				one.Role = f.Roles[0]
			}
			list = append(list, one)
		}
	}
	return list
}

// framework returns everything that is known of a framework.
func (c Cluster) framework(id api.FrameworkID) Framework {
	known := c.Registry.Frameworks[id]
	f, leads := c.known(id)
	switch {
	case leads:
		if f.Refused != "" {
			f.Why += "; its scheduler is refused: " + f.Refused
		}
	case known.Removed.IsZero():
		f = Framework{Framework: known.Framework, State: unknownState, Why: unknownWhy}
	default:
		f = Framework{Framework: known.Framework, State: Removed, Since: known.Removed, Why: known.Why}
	}
	f.Instance, f.Session, f.Admitted = known.Instance, known.Session, known.Admitted
	return f
}

// known returns what the leader knows of a framework; false when this master follows, or when there is no framework
// with that ID.
func (c Cluster) known(id api.FrameworkID) (Framework, bool) {
	if c.Leader == nil {
		return Framework{}, false
	}
	return c.Leader.Framework(id)
}
