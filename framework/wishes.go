package framework

import (
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// wishes is what the framework has said of the offers it wants; every session is told
// anew.
type wishes struct {
	roles      []api.Role
	suppressed map[api.Role]bool
	demands    map[api.Role]api.Demand
}

func newWishes(config Config) *wishes {
	w := &wishes{roles: config.Roles, suppressed: make(map[api.Role]bool), demands: make(map[api.Role]api.Demand)}
	if config.Suppressed {
		w.suppress(nil)
	}
	return w
}

// suppress and revive take no roles as all of them.
func (w *wishes) suppress(roles []api.Role) {
	for _, role := range w.named(roles) {
		w.suppressed[role] = true
	}
}

func (w *wishes) revive(roles []api.Role) {
	for _, role := range w.named(roles) {
		delete(w.suppressed, role)
	}
}

func (w *wishes) named(roles []api.Role) []api.Role {
	if len(roles) == 0 {
		return w.roles
	}
	return roles
}

// demand notes the demand and whether its role has to be revived for it.
func (w *wishes) demand(demand api.Demand) (revive bool) {
	w.demands[demand.Role] = demand
	if len(demand.Shapes) == 0 || !w.suppressed[demand.Role] {
		return false
	}
	w.revive([]api.Role{demand.Role})
	return true
}

// suppressedRoles lists the roles that start suppressed.
func (w *wishes) suppressedRoles() []api.Role {
	var roles []api.Role
	for _, role := range w.roles {
		if w.suppressed[role] {
			roles = append(roles, role)
		}
	}
	return roles
}

// calls tells a new session of the demand.
func (w *wishes) calls() []protocol.SchedulerCall {
	var calls []protocol.SchedulerCall
	for _, role := range w.roles {
		if demand, stated := w.demands[role]; stated {
			calls = append(calls, protocol.SetDemand{Demand: demand})
		}
	}
	return calls
}

// join replaces the roles; what was wished for one that is left is forgotten.
func (w *wishes) join(roles []api.Role) {
	for _, role := range w.roles {
		if !slices.Contains(roles, role) {
			delete(w.suppressed, role)
			delete(w.demands, role)
		}
	}
	w.roles = roles
}
