// Package registry is what the quorum replicates: the small, durable truth that survives any failover. State is a plain
// value; Apply changes it by one command.
//
// It is pure and deterministic: the same commands make the same state on every master, at every index. Apply never
// panics and never fails: a command that can't be done is answered by a typed refusal (R18). Encoding is in
// registrycodec.
package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Format is the newest version of what is written to disk that this program reads; a
// newer one is refused at start. The registry has a format of its own, at first 1: it is
// raised when all masters know a newer one, and only then is used what that one can
// say (R24).
const Format = 6

// FormatMaintenance has maintenance windows, and writes to stores that carry the limit
// of all stores.
const FormatMaintenance = 2

// FormatOperations has the operations that frameworks have done, so that a leader can
// say of them what an earlier one did (R26).
const FormatOperations = 3

// FormatBounded bounds what each noun may hold in bytes, forgets agents long after they were
// marked gone, remembers numbers that a lost future may have given out (R34, R37), and lets
// masters compare the hash of what they hold.
const FormatBounded = 4

// FormatHashed takes the hash by which masters compare what they hold from the messages of a
// snapshot, so that a new field is in it.
const FormatHashed = 5

// FormatTrust has principals with what they were granted, and launches that carry receipts. From it on
// a framework of no principal is the first one's that takes it over, and whoever has no principal, as the cluster asks
// nobody, may take over any (R6). It also has the tokens by which somebody joins, and bounds what one principal keeps.
const FormatTrust = 6

// State is the registry. Values in its maps are replaced, never edited, so that
// Clone is shallow and a snapshot does not stop Apply.
type State struct {
	Cluster api.ClusterID // "" until Bootstrap
	Epoch   uint64        // first part of every term
	Format  uint64        // that all masters know; 0 is read as 1
	Index   uint64        // of the last log entry applied

	Masters    map[api.MasterID]Master
	Agents     map[api.AgentID]Agent
	Frameworks map[api.FrameworkID]Framework
	Roles      map[api.Role]Role
	Clients    map[string]Client // last result of each proposer (R17)
	// Principals are those who were granted something, by their names. Replaced, never edited. Since FormatTrust.
	Principals map[string]Principal
	// Receipts say since when launches are known to be a leader's. Since FormatTrust.
	Receipts Receipts

	NextAgent     uint64 // numbers that were never given out; 0 is read as 1
	NextFramework uint64
	// LostAgents and LostFrameworks are numbers that changes may have given out which a
	// restore or a recovery has lost: who comes back with one keeps it (R37). Replaced,
	// never edited. Since FormatBounded.
	LostAgents     []Numbers
	LostFrameworks []Numbers

	Guarded

	shared shared   // maps that a clone sees too: copied before the next write
	owner  *owner   // marks the stores that no clone sees
	memory *indexes // what can be found faster than by walking; made again when nil
}

// Guarded is what decides who gets into the cluster, and what is not for everybody in it. Since FormatTrust.
type Guarded struct {
	Tokens    map[string]Token // by which somebody joins
	Authority Authority        // that signs certificates, if it is not the first one
	// Secrets are what tasks may be given. Replaced, never edited.
	Secrets map[api.SecretID]Secret
	// Barred are the names of agents that were removed, as their certificates say them, and since when: nobody is admitted
	// by one. Replaced, never edited.
	Barred map[api.Nonce]time.Time
}

// Master is what a master says of itself when it leads or joins.
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
	Nonce    api.Nonce // of its first contact (R7)
	BootID   string
	Marks    api.Mark
	Grace    time.Duration // of the drain
	Why      string        // of the marks
	Admitted time.Time
	// Dynamic reservations and volumes, labels included; what they are made of is
	// missing from the unreserved total.
	Reserved api.Resources
	// Maintenance is when the agent will be away; a window without a start is none.
	Maintenance api.Window
	// Maintained says that the window has begun, and that this is why it drains.
	Maintained bool
	// Gone is when it was marked gone. Since FormatBounded.
	Gone time.Time
	// Receipts says that it has kept those of launches, and is held to it from then on: for launches of terms after
	// ReceiptsAfter, up to which it kept none. Since FormatTrust.
	Receipts      bool
	ReceiptsAfter api.Term
}

// Framework is a framework that may hold tasks, or a tombstone of one that was removed.
type Framework struct {
	Framework api.Framework // with its ID and principal
	Instance  api.Nonce     // the active scheduler, or the last
	Session   uint64        // raised by each takeover (R5)
	Admitted  time.Time
	Removed   time.Time // zero: alive
	Why       string    // of the removal
	Store     map[string]Entry
	StoreSize int64 // bytes of keys and values
	// StoreVersion is the version of the last change of any key, so that a key that
	// is deleted and made again never has an old version.
	StoreVersion uint64

	// Operations are those with an ID that have changed what is reserved, the latest
	// last; at most OperationsMax. Replaced, never edited.
	Operations []Operation

	storeOwner *owner // who may edit Store in place; nobody else sees it
}

// Operation is one that a framework has done on an agent.
type Operation struct {
	ID    api.OperationID
	Agent api.AgentID
}

// Entry is one key of a framework's store.
type Entry struct {
	Value   []byte
	Version uint64 // grows with each change
}

// Role is what operators say of a role.
type Role struct {
	Weight    float64
	Priority  int
	Guarantee api.Resources
	Limit     api.Resources
}

// Client is the last command of a proposer, to answer a repeat with the same result.
type Client struct {
	Counter uint64
	Result  Result
	Seen    time.Time
}
