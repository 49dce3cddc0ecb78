package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Command is one change with its identity: the same (Client, Counter) proposed again
// is not applied again but answered with the same result (R17). At is the leader's
// clock when it was proposed; Apply has no other.
type Command struct {
	Client  string
	Counter uint64
	At      time.Time
	Change  Change
}

// Change is one of the types below.
type Change interface{ change() }

// The changes.
type (
	// Bootstrap names the cluster, once.
	Bootstrap struct{ Cluster api.ClusterID }
	// RaiseEpoch starts a new epoch, after a restore or a recovery.
	RaiseEpoch struct{ Epoch uint64 }
	// RaiseFormat lets the registry say what a newer format can: all masters read it.
	RaiseFormat struct{ Format uint64 }
	// CheckHash says which hash the majority's registries had behind an entry of the log. It
	// changes nothing; a master that had another one stops.
	CheckHash struct {
		Index uint64
		Hash  string
	}
	// SetMaster records a master's addresses and allocator.
	SetMaster struct {
		ID     api.MasterID
		Master Master
	}
	// RemoveMaster forgets a master that left the quorum.
	RemoveMaster struct{ ID api.MasterID }

	// AdmitAgent gives an agent its ID; a known nonce gets the ID it has (R7).
	AdmitAgent struct {
		Agent  api.Agent
		Nonce  api.Nonce
		BootID string
	}
	// UpdateAgent replaces what an admitted agent says of itself.
	UpdateAgent struct {
		Agent  api.Agent
		BootID string
	}
	// MarkAgent sets and clears marks.
	MarkAgent struct {
		ID    api.AgentID
		Set   api.Mark
		Clear api.Mark
		Grace time.Duration
		Why   string
	}
	// SetMaintenance gives agents a window, or none; all of them or, if one is unknown
	// or gone, nobody. With Saw only those change that have this window.
	SetMaintenance struct {
		Agents []api.AgentID
		Window api.Window
		Saw    api.Window
	}
	// BeginMaintenance drains an agent if this is its window.
	BeginMaintenance struct {
		ID     api.AgentID
		Window api.Window
	}
	// RemoveAgent forgets an agent.
	RemoveAgent struct{ ID api.AgentID }
	// SetReserved replaces an agent's dynamic reservations and volumes, if it still
	// has what the proposer saw. Done are the framework's operations that come to this.
	SetReserved struct {
		ID        api.AgentID
		Saw       api.Resources
		Reserved  api.Resources
		Framework api.FrameworkID
		Done      []api.OperationID
	}

	// Subscribe admits a framework or takes it over: it raises the session (R5).
	// Without an ID, a known instance gets the ID it has (R7); with Standby, so does
	// a known name of the same principal (R6).
	Subscribe struct {
		Framework api.Framework
		Instance  api.Nonce
	}
	// Readmit takes a framework from an agent's copy (R21).
	Readmit struct{ Framework api.Framework }
	// UpdateFramework replaces what Subscribe said but identity, if the session is current.
	UpdateFramework struct {
		Framework api.Framework
		Session   uint64
	}
	// RemoveFramework turns a framework into a tombstone, if the session is still the
	// one the proposer saw (0 = whichever: an operator's or the framework's own wish).
	RemoveFramework struct {
		ID      api.FrameworkID
		Session uint64
		Why     string
	}

	// SetRole replaces what is said of a role.
	SetRole struct {
		Role api.Role
		Set  Role
	}

	// PutEntry writes a key of a framework's store. IfVersion nil = whatever it has.
	PutEntry struct {
		Framework api.FrameworkID
		Session   uint64
		Key       string
		Value     []byte
		IfVersion *uint64
		// AllMax is how many bytes all stores may hold together, as the proposer was
		// told: every master decides by the same. 0 = StoreBytesMax.
		AllMax uint64
	}
	// DeleteEntry deletes one.
	DeleteEntry struct {
		Framework api.FrameworkID
		Session   uint64
		Key       string
		IfVersion *uint64
	}

	// Expire forgets clients and tombstones not seen since Before.
	Expire struct{ Before time.Time }
)

func (Bootstrap) change()        {}
func (RaiseEpoch) change()       {}
func (RaiseFormat) change()      {}
func (CheckHash) change()        {}
func (SetMaintenance) change()   {}
func (BeginMaintenance) change() {}
func (SetMaster) change()        {}
func (RemoveMaster) change()     {}
func (AdmitAgent) change()       {}
func (UpdateAgent) change()      {}
func (MarkAgent) change()        {}
func (RemoveAgent) change()      {}
func (SetReserved) change()      {}
func (Subscribe) change()        {}
func (Readmit) change()          {}
func (UpdateFramework) change()  {}
func (RemoveFramework) change()  {}
func (SetRole) change()          {}
func (PutEntry) change()         {}
func (DeleteEntry) change()      {}
func (Expire) change()           {}

// Result is what a command came to: a refusal, or what it minted.
type Result struct {
	Err       *api.Error // nil: done
	Agent     api.AgentID
	Framework api.FrameworkID
	Session   uint64
	Version   uint64
}
