// Package registry is what the quorum replicates: the small, durable truth that survives any failover. State is a plain
// value; Apply changes it by one command.
//
// It is pure and deterministic: the same commands make the same state on every master, at every index. Apply never
// panics and never fails: a command that can't be done is answered by a typed refusal (R18). Encoding is in
// registrycodec.
package registry

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry/spent"
)

// Format is the newest version of what is written to disk that this program reads; a newer one is refused at start. The
// registry has a format of its own, which is 1 at first. It is raised when all masters know a newer one, and only then
// what that one introduces is used (R24). Each later format is a constant below this one, with what it introduces.
//
// It is a variable only for the tests of this mechanism, which act as a later version (registrytest.Knowing). Nothing
// else writes to it.
var Format uint64 = 1

// State is the registry. Values in its maps are replaced, never edited, so Clone is shallow and a snapshot does not
// stop Apply.
type State struct {
	Cluster api.ClusterID // "" until Bootstrap
	Epoch   uint64        // the first part of every term
	Format  uint64        // the format that all masters know; 0 is read as 1
	Index   uint64        // index of the last log entry that was applied

	Masters    map[api.MasterID]Master
	Agents     map[api.AgentID]Agent
	Frameworks map[api.FrameworkID]Framework
	Roles      map[api.Role]Role
	Clients    map[string]Client // the last result of each proposer (R17)
	// Principals holds the principals, by name. Replaced, never edited.
	Principals map[string]Principal
	// Receipts says since when launches carry receipts.
	Receipts Receipts

	Counts
	// LostAgents and LostFrameworks are numbers that may have been given out by changes that a restore or a recovery
	// has lost. An agent or framework that comes back with one keeps it (R37). Replaced, never edited.
	LostAgents     []Numbers
	LostFrameworks []Numbers

	Guarded

	// Usage is who has used how much. Replaced, never edited.
	Usage spent.Book

	shared shared   // maps that a clone uses too; copied before the next write
	owner  *owner   // marks the stores that no clone uses
	memory *indexes // indexes of the maps; made again when nil
}

// Counts are what the registry counts, so that no number ever means two things.
type Counts struct {
	NextAgent     uint64 // the next number to give out; 0 is read as 1
	NextFramework uint64
	NextVolume    uint64 // the generation of the next volume, of whatever agent
	Quotas        uint64 // how often any role's guarantee or limit has changed
}

// Guarded holds what decides who gets into the cluster, and what not everybody in it may see.
type Guarded struct {
	Tokens    map[string]Token // with which somebody can join
	Authority Authority        // the authority that signs certificates, if it is not the first one
	// Secrets are the secrets that tasks may be given. Replaced, never edited.
	Secrets map[api.SecretID]Secret
	// Barred holds the nonces of agents that were removed, as their certificates have them, and since when. No agent is
	// admitted with one of them. Replaced, never edited.
	Barred map[api.Nonce]time.Time
}

// Master is what a master says about itself when it leads or joins.
type Master struct {
	GRPC      string // advertised addresses, host:port
	HTTP      string
	Raft      string
	Version   string
	Allocator string
}

// Agent is an admitted agent.
type Agent struct {
	Agent    api.Agent // with its ID
	Nonce    api.Nonce // the nonce of its first contact (R7)
	BootID   string
	Marks    api.Mark
	Grace    time.Duration // the grace of its drain
	Why      string        // why it has its marks
	Admitted time.Time
	// Reserved are the dynamic reservations and volumes, with their labels. The unreserved total lacks the resources
	// that they are made of.
	Reserved api.Resources
	// Volumes are the volumes in Reserved, with their generations, and those that are being destroyed; by ID and
	// generation. Replaced, never edited.
	Volumes []Volume
	// Kills are operators' kills that wait for the agent, in the order in which they were asked for. Replaced, never
	// edited.
	Kills []Kill
	// Maintenance is when the agent will be away. A window without a start means none.
	Maintenance api.Window
	// Maintained says that the window has begun, and that the agent drains because of it.
	Maintained bool
	// MarksVersion numbers the changes of the marks and of the maintenance, from 1 on.
	MarksVersion uint64
	// Gone is when the agent was marked gone.
	Gone time.Time
}

// Framework is a framework that may hold tasks, or a tombstone of one that was removed.
type Framework struct {
	Framework api.Framework // with its ID and principal
	Instance  api.Nonce     // the instance of the active scheduler, or the last one
	Session   uint64        // raised by each takeover (R5)
	Turn      uint64        // the session with which the turn of Instance began: no other one was active since (R6)
	Admitted  time.Time
	Removed   time.Time // zero: it is not removed
	Why       string    // why it was removed
	Store     map[string]Entry
	StoreSize int64 // bytes of keys and values
	// StoreVersion is the version of the last change of any key. A key that is deleted and made again gets a newer
	// version, never an old one.
	StoreVersion uint64

	// Operations are the operations with an ID that have changed what is reserved, the latest last; at most
	// OperationsMax. Replaced, never edited.
	Operations []Operation

	storeOwner *owner // the owner that may edit Store in place, because nobody else uses it
}

// Operation is an operation that a framework has done on an agent.
type Operation struct {
	ID    api.OperationID
	Agent api.AgentID
}

// Entry is one key of a framework's store.
type Entry struct {
	Value   []byte
	Version uint64 // grows with each change
}

// Role holds an operator's settings of a role.
type Role struct {
	Weight    float64
	Priority  int
	Guarantee api.Resources
	Limit     api.Resources
}

// Describe says for people all that is set.
func (r Role) Describe() string {
	limit := "none"
	if !r.Limit.IsZero() {
		limit = r.Limit.String()
	}
	return fmt.Sprintf("weight %v, priority %d, guarantee %v, limit %s", cmp.Or(r.Weight, 1), r.Priority, r.Guarantee, limit)
}

// Client is the last command of a proposer, kept so that a repeated command gets the same result.
type Client struct {
	Counter uint64
	Result  Result
	Seen    time.Time
}
