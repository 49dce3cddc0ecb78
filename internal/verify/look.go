// Package verify checks whether what the masters and agents of a cluster say fits together: the books of the leader
// against what its agents have, and its lists against each other. It is given what was said, as values; it asks nobody,
// changes nothing and knows nothing of what really runs. (Protocol rule R63.)
package verify

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Look is what masters and agents said at about one time. They were asked one after the other while the cluster went
// on, so two parts of it may differ because something happened in between: see [Watch].
type Look struct {
	At         time.Time
	Masters    []Master
	Agents     []Agent
	Frameworks []Framework
	Tasks      []Task // the leader's
	Offers     []Offer
	Roles      []Role
	// Unseen is what could not be asked.
	Unseen []Unseen
}

// Unseen is something that could not be looked at, and why.
type Unseen struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Master is what one master says of itself.
type Master struct {
	Name    string // its ID, or the address at which it was asked
	Cluster string
	Leads   bool
	// Folder is the incarnation of its folder, and Member that of the folder which the leader counts as this master.
	Folder, Member string
	// Index is how far it has applied the log, and Hash the hash of its registry there.
	Index uint64
	Hash  string
	Why   string // what the leader says is wrong with it
}

// Agent is an agent as the leader lists it.
type Agent struct {
	ID        api.AgentID
	Hostname  string
	Address   string
	State     string
	Why       string
	Since     time.Time
	Marks     []string
	Total     api.Resources // with reservations
	Allocated api.Resources
	Offered   api.Resources
	Revocable api.Resources // what its tasks leave unused (R28)
	Tasks     int
	Volumes   map[api.VolumeID]uint64 // the generation of each that the registry has
	Orphaned  []OrphanedVolume        // that the registry does not know
	Apart     []string                // tasks that no leader has launched there (R40)
	// Said is what the agent itself says; nil: it was not asked, or has not answered.
	Said *Said
}

// OrphanedVolume is a volume that an agent has and the registry does not know.
type OrphanedVolume struct{ ID, Why string }

// Said is what an agent says of itself.
type Said struct {
	Agent      api.AgentID
	Registered bool
	Resources  api.Resources // its own, without reservations
	Volumes    []Volume
	Executors  []Executor
	Tasks      []AgentTask
}

// Volume is a persistent volume as its agent says.
type Volume struct {
	ID         api.VolumeID
	Generation uint64
	Lost       bool // its folder is not there
}

// Executor is an executor on an agent.
type Executor struct {
	Ref       api.ExecutorRef
	Resources api.Resources
}

// AgentTask is a task as its agent says.
type AgentTask struct {
	Ref       api.TaskRef
	State     api.TaskState
	Resources api.Resources
}

// Framework is a framework as the leader lists it.
type Framework struct {
	ID        api.FrameworkID
	State     string
	Since     time.Time
	Roles     []api.Role
	Allocated api.Resources
	Offered   api.Resources
	Tasks     int
	Offers    int
	Demand    []Demand
}

// Demand is one shape of what a framework wants.
type Demand struct {
	Role  api.Role
	Count int64
}

// Task is a task as the leader lists it.
type Task struct {
	Ref       api.TaskRef
	Agent     api.AgentID
	Role      api.Role // "": only its framework has named it, and no agent yet
	State     api.TaskState
	Resources api.Resources
	Launched  time.Time
	Since     time.Time
}

// Offer is an open offer.
type Offer struct {
	ID        api.OfferID
	Framework api.FrameworkID
	Agent     api.AgentID
	Resources api.Resources
	Since     time.Time
}

// Role is a role as the leader lists it, with what is below it.
type Role struct {
	Role                                api.Role
	Limit, Allocated, Offered, Reserved api.Resources
}
