package inputs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Mirror holds what the inputs so far amount to.
type Mirror struct {
	agents     map[api.AgentID]allocator.Agent
	uses       map[api.AgentID]api.Resources
	frameworks map[api.FrameworkID]allocator.Framework
	roles      map[api.Role]allocator.Role
	members    map[memberKey]*member
	places     map[placeKey]*place
	filters    filters
	hold       bool
}

type memberKey struct {
	framework api.FrameworkID
	role      api.Role
}

// member is a framework in a role.
type member struct {
	suppressed bool
	stated     bool
	shapes     []api.Shape // as they were last told
}

type placeKey struct {
	memberKey
	agent api.AgentID
}

// place is what a member holds on one agent.
type place struct {
	loose api.Resources // held by offers and executors
	tasks map[api.TaskID]allocator.Claim
}

// NewMirror makes a Mirror that has seen no inputs.
func NewMirror() *Mirror {
	return &Mirror{
		agents:     make(map[api.AgentID]allocator.Agent),
		uses:       make(map[api.AgentID]api.Resources),
		frameworks: make(map[api.FrameworkID]allocator.Framework),
		roles:      make(map[api.Role]allocator.Role),
		members:    make(map[memberKey]*member),
		places:     make(map[placeKey]*place),
		filters:    filters{of: make(map[memberKey]*left), by: make(map[string]int), max: filtersMax},
	}
}

// Note applies one input to the mirror.
func (m *Mirror) Note(input Input) {
	switch i := input.(type) {
	case SetAgent:
		m.setAgent(i.Agent)
	case RemoveAgent:
		m.removeAgent(i.Agent)
	case SetFramework:
		m.setFramework(i.Framework)
	case RemoveFramework:
		m.removeFramework(i.Framework)
	case Suppress:
		m.each(i.Framework, i.Roles, func(key memberKey) { m.member(key).suppressed = true })
	case Revive:
		m.each(i.Framework, i.Roles, func(key memberKey) {
			m.member(key).suppressed = false
			m.filters.forget(key)
		})
	case SetDemand:
		m.setDemand(i)
	case SetRole:
		m.roles[i.Role.Role] = i.Role
	case Hold:
		m.hold = i.On
	case Use:
		m.uses[i.Agent] = i.Beyond
	case Take:
		m.take(i.Claim)
	case Launch:
		m.launch(i.Claim)
	case Return:
		m.giveBack(i.Claim)
	case Refuse:
		if !i.Until.IsZero() { // a filter was asked for
			m.filters.leave(keyOf(i.Claim), m.frameworks[i.Claim.Framework].Principal, i)
		}
	}
}

// Propose notes that the policy has proposed these offers, so that they count as taken.
func (m *Mirror) Propose(offers []allocator.Claim) {
	for _, claim := range offers {
		m.take(claim)
	}
}

func (m *Mirror) member(key memberKey) *member {
	one := m.members[key]
	if one == nil {
		one = &member{}
		m.members[key] = one
	}
	return one
}

func (m *Mirror) place(claim allocator.Claim) *place {
	key := keyOf(claim)
	one := m.places[key]
	if one == nil {
		one = &place{}
		m.places[key] = one
	}
	return one
}

func keyOf(claim allocator.Claim) placeKey {
	return placeKey{memberKey{claim.Framework, claim.Role}, claim.Agent}
}

// setDemand sets a demand. If the framework wants more than before, its filters in the role are forgotten.
func (m *Mirror) setDemand(i SetDemand) {
	key := memberKey{i.Framework, i.Role}
	one := m.member(key)
	before := append([]api.Shape{}, one.shapes...)
	if !one.stated {
		before = nil
	}
	if allocator.DemandGrows(before, i.Shapes) {
		m.filters.forget(key)
	}
	one.stated, one.shapes = i.Shapes != nil, slices.Clone(i.Shapes)
}

// setAgent sets an agent. If its attributes or place have changed, its filters are forgotten.
func (m *Mirror) setAgent(a allocator.Agent) {
	was, known := m.agents[a.ID]
	m.agents[a.ID] = a
	if known && (was.Hostname != a.Hostname || was.Region != a.Region || was.Zone != a.Zone || !maps.Equal(was.Attributes, a.Attributes)) {
		m.filters.forgetAgent(a.ID)
	}
}

func (m *Mirror) removeAgent(id api.AgentID) {
	delete(m.agents, id)
	delete(m.uses, id)
	maps.DeleteFunc(m.places, func(key placeKey, _ *place) bool { return key.agent == id })
	m.filters.forgetAgent(id)
}

func (m *Mirror) setFramework(f allocator.Framework) {
	was := m.frameworks[f.ID]
	m.frameworks[f.ID] = f
	m.filters.forgetIf(func(key memberKey) bool {
		return key.framework == f.ID && (was.Active && !f.Active || was.TakesOther(f) || !slices.Contains(f.Roles, key.role))
	})
	m.filters.belong(f.ID, f.Principal)
	maps.DeleteFunc(m.members, func(key memberKey, _ *member) bool {
		return key.framework == f.ID && !slices.Contains(f.Roles, key.role)
	})
}

func (m *Mirror) removeFramework(id api.FrameworkID) {
	delete(m.frameworks, id)
	maps.DeleteFunc(m.members, func(key memberKey, _ *member) bool { return key.framework == id })
	maps.DeleteFunc(m.places, func(key placeKey, _ *place) bool { return key.framework == id })
	m.filters.forgetIf(func(key memberKey) bool { return key.framework == id })
}

func (m *Mirror) each(id api.FrameworkID, roles []api.Role, do func(memberKey)) {
	if len(roles) == 0 {
		roles = m.frameworks[id].Roles
	}
	for _, role := range roles {
		do(memberKey{id, role})
	}
}

func (m *Mirror) take(claim allocator.Claim) {
	one := m.place(claim)
	if claim.Task == "" {
		one.loose = one.loose.Plus(claim.Resources)
		return
	}
	if one.tasks == nil {
		one.tasks = make(map[api.TaskID]allocator.Claim)
	}
	one.tasks[claim.Task] = claim
}

func (m *Mirror) launch(claim allocator.Claim) {
	if claim.Task == "" {
		return // of an executor: it stays a part of the offer
	}
	one := m.place(claim)
	one.loose = one.loose.Without(claim.Resources)
	m.take(claim)
}

func (m *Mirror) giveBack(claim allocator.Claim) {
	key := keyOf(claim)
	one := m.places[key]
	if one == nil {
		return
	}
	if _, runs := one.tasks[claim.Task]; runs {
		delete(one.tasks, claim.Task)
		for _, role := range m.frameworks[claim.Framework].Roles {
			m.filters.forgetAt(memberKey{claim.Framework, role}, claim.Agent)
		}
	} else {
		one.loose = one.loose.Without(claim.Resources)
	}
	if one.loose.IsZero() && len(one.tasks) == 0 {
		delete(m.places, key)
	}
}

// Forget drops the filters that have ended.
func (m *Mirror) Forget(now time.Time) { m.filters.expire(now) }

// Filters returns how many filters are remembered of the frameworks of a principal, including those that have ended
// since the last Forget. Filters of the empty principal are not counted.
func (m *Mirror) Filters(principal string) int { return m.filters.by[principal] }

// Inputs returns the inputs that tell a fresh policy everything. They tell open offers as taken, because the fresh
// policy has not proposed them.
func (m *Mirror) Inputs() []Input {
	var all []Input
	all = append(all, Hold{m.hold})
	for _, role := range slices.Sorted(maps.Keys(m.roles)) {
		all = append(all, SetRole{m.roles[role]})
	}
	for _, id := range slices.Sorted(maps.Keys(m.agents)) {
		all = append(all, SetAgent{m.agents[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(m.frameworks)) {
		all = append(all, SetFramework{m.frameworks[id]})
	}
	for _, key := range slices.SortedFunc(maps.Keys(m.members), compareMembers) {
		one := m.members[key]
		if one.stated {
			all = append(all, SetDemand{key.framework, key.role, append([]api.Shape{}, one.shapes...)})
		}
		if one.suppressed {
			all = append(all, Suppress{key.framework, []api.Role{key.role}})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(m.places), comparePlaces) {
		all = append(all, m.places[key].inputs(key)...)
	}
	all = append(all, m.filters.inputs()...)
	for _, id := range slices.Sorted(maps.Keys(m.uses)) {
		all = append(all, Use{id, m.uses[id]})
	}
	return all
}

func (one *place) inputs(key placeKey) []Input {
	var all []Input
	if !one.loose.IsZero() {
		all = append(all, Take{allocator.Claim{Framework: key.framework, Role: key.role, Agent: key.agent, Resources: one.loose}})
	}
	for _, id := range slices.Sorted(maps.Keys(one.tasks)) {
		all = append(all, Take{one.tasks[id]})
	}
	return all
}

func compareMembers(a, b memberKey) int {
	return cmp.Or(strings.Compare(string(a.framework), string(b.framework)), strings.Compare(string(a.role), string(b.role)))
}

func comparePlaces(a, b placeKey) int {
	return cmp.Or(strings.Compare(string(a.agent), string(b.agent)), compareMembers(a.memberKey, b.memberKey))
}
