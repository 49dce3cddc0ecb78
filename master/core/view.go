package core

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Query selects a page of a list, in the order of the IDs. Zero fields select all.
type Query struct {
	Limit     int    // 0 or too large = api.PageItemsMax
	After     string // continue behind this ID
	Prefix    string // of the ID; for tasks of FRAMEWORK/TASK or TASK; or the whole name
	Agent     api.AgentID
	Framework api.FrameworkID
	Role      api.Role
	States    []string // names, any case
	All       bool     // tasks: also those that have ended
}

// Page is part of a list; Next is the After of the page that follows, "" at the end.
type Page[T any] struct {
	Items []T
	Next  string
}

// AgentView is an agent as people see it.
type AgentView struct {
	Agent     api.Agent
	State     api.AgentState
	Since     time.Time
	Why       string
	Marks     api.Mark
	Allocated api.Resources // by tasks and executors
	Offered   api.Resources
	Free      api.Resources
	Revocable api.Resources // the gap (R28)
	Occupied  api.Resources // asked for or used, whichever is more, over all executors (R28)
	Orphans   []OrphanedVolume
	Tasks     int
	MaybeMore bool // it has not told this leader what it has, so Tasks are only those of which others know
	Usage     protocol.UsageReport
	Admitted  time.Time
	// Maintenance is the agent's window, if it has a start. Leaving is what frameworks
	// have answered to the request to leave until then.
	Maintenance api.Window
	Leaving     map[api.FrameworkID]string
}

// FrameworkView is a framework as people see it.
type FrameworkView struct {
	Framework     api.Framework
	State         string // active, disconnected or removed
	Since         time.Time
	Why           string
	Suppressed    []api.Role
	Allocated     api.Resources
	Offered       api.Resources
	DominantShare float64
	Tasks         int
	Offers        int
	Instance      api.Nonce
	Session       uint64
	Demand        []api.Demand
	Admitted      time.Time
	Placed        Placements
}

// TaskView is a task as people see it.
type TaskView struct {
	Task          api.Task
	Framework     api.FrameworkID
	FrameworkName string
	Role          api.Role
	Resources     api.Resources // as carved
	Status        api.Status    // the latest
	Agent         api.AgentID
	Hostname      string
	AgentAddress  string
	Launched      time.Time
	Usage         api.Usage
}

// OfferView is an open offer as people see it.
type OfferView struct {
	Offer         api.Offer
	FrameworkName string
	Since         time.Time
	Expires       time.Time
}

// RoleView is a role as people see it.
type RoleView struct {
	Role          api.Role
	Weight        float64
	Priority      int
	Guarantee     api.Resources
	Limit         api.Resources
	Allocated     api.Resources
	Offered       api.Resources
	Reserved      api.Resources
	DominantShare float64
	Frameworks    int
}

// ExplainView is an explanation for people.
type ExplainView struct {
	Framework api.FrameworkID
	Reasons   []string
	Agents    []ExplainedAgent    // the 100 first, or the one that was asked for
	Decisions []ExplainedDecision // the latest, newest last
}

// ExplainedAgent says why a framework is (not) offered an agent.
type ExplainedAgent struct {
	Agent    api.AgentID
	Hostname string
	Why      string
}
