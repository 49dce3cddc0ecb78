package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Limits of what the registry holds. A command that would exceed one is refused (Limit), unless its comment says
// otherwise.
const (
	// MastersMax bounds the masters, including those that have left.
	MastersMax = 64
	// AgentsMax bounds the admitted agents that are not marked gone.
	AgentsMax = 100_000
	// GoneAgentsMax bounds the agents that are marked gone. When there are more, the oldest tenth is forgotten.
	GoneAgentsMax = 100_000
	// MaintenanceAgentsMax bounds the agents in one change of maintenance windows.
	MaintenanceAgentsMax = 1000
	// FrameworksMax bounds the frameworks that are not removed.
	FrameworksMax = 100_000
	// FrameworksPerPrincipalMax bounds those of one principal, so that none can take all places.
	FrameworksPerPrincipalMax = 50_000
	// TombstonesMax bounds the removed frameworks. When there are more, the oldest tenth is forgotten.
	TombstonesMax = 100_000
	// OperationsMax bounds the operations that are remembered of one framework. When there are more, the oldest is
	// forgotten, and a framework that asks for it is told that it is not known.
	OperationsMax = 1000
	// OperationsBytesMax bounds the size of these operations' IDs.
	OperationsBytesMax = 64 << 10
	// LostNumbersMax bounds the ranges of numbers that a restore or a recovery has skipped.
	LostNumbersMax = 1 << 16
	// WeightMax bounds the weight of a role; the least is its reciprocal. Shares beyond that are no shares any more.
	WeightMax = 1_000_000
	// RolesMax bounds the roles for which an operator has set anything.
	RolesMax = 10_000
	// TokensMax bounds the tokens with which somebody can join. TokenUsesMax bounds the uses of a token whose uses are
	// limited. TokenHashBytesMax bounds the hash of a secret or a key. TokenRemembered is how long a token that has
	// ended is kept. FirstToken is the ID of the first operator's token.
	TokensMax         = 10_000
	TokenUsesMax      = 1000
	TokenHashBytesMax = 128
	TokenRemembered   = 30 * 24 * time.Hour
	FirstToken        = "first"
	// AuthorityBytesMax bounds a sealed authority. AuthorityDigestBytes is the size of its digest.
	AuthorityBytesMax    = 64 << 10
	AuthorityDigestBytes = 32
	// BarredMax bounds the remembered nonces of removed agents, which are not admitted again. BarredRemembered is how
	// long a nonce is kept: the certificate of an agent is valid for 30 days, and clocks may differ.
	BarredMax        = 10_000
	BarredRemembered = 31 * 24 * time.Hour
	// SealedSecretBytesMax bounds the sealed value of a secret, SecretsPerRoleMax the secrets of one role, and
	// SecretsBytesMax all of them together.
	SealedSecretBytesMax = api.SecretBytesMax + 64
	SecretsPerRoleMax    = 256
	SecretsBytesMax      = 16 << 20
	// ClientsMax bounds the proposers whose last result is kept. When there are more, the tenth that has been silent
	// longest is forgotten.
	ClientsMax = 100_000

	// AgentsBytesMax bounds what all agents say about themselves and have reserved, FrameworksBytesMax what all
	// frameworks say about themselves, RolesBytesMax what operators have set for roles.
	AgentsBytesMax     = 512 << 20
	FrameworksBytesMax = 256 << 20
	RolesBytesMax      = 64 << 20
	// SubjectBytesMax bounds the subject of a result that is kept; a longer one is cut. A longer message is cut too
	// (api.TextBytesMax).
	SubjectBytesMax = api.IDBytesMax
	// ClientBytesMax bounds the name of a proposer.
	ClientBytesMax = 600
	// TombstoneRolesBytesMax bounds the roles that a tombstone keeps. If there are more, none is kept.
	TombstoneRolesBytesMax = 1 << 10

	// PrincipalsMax bounds the principals, including revoked ones until they are forgotten.
	PrincipalsMax = 10_000
	// GrantsMax bounds the grants of one principal.
	GrantsMax = 64
	// ReceiptMarkBytes is the size of the fingerprint of the key of receipts.
	ReceiptMarkBytes = 32

	// StoreKeyBytesMax bounds a key of a framework's store.
	StoreKeyBytesMax = 512
	// StoreValueBytesMax bounds a value.
	StoreValueBytesMax = 1 << 20
	// StoreEntriesMax bounds the keys of one framework.
	StoreEntriesMax = 100_000
	// StoreFrameworkBytesMax bounds keys and values of one framework.
	StoreFrameworkBytesMax = 64 << 20
	// StoreBytesMax bounds the keys and values of all frameworks. Those of one principal may take three
	// quarters of it, and of FrameworksBytesMax. The leader may be configured to refuse earlier; then each write
	// says so (PutEntry.AllMax).
	StoreBytesMax = 1 << 30
)
