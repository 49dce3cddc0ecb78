package registry

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Limits of what the registry holds. Beyond them a command is refused (Limit),
// where nothing else is said.
const (
	// MastersMax bounds the masters, those that have left included.
	MastersMax = 64
	// AgentsMax bounds the admitted agents; from FormatBounded on those that were not marked
	// gone.
	AgentsMax = 100_000
	// GoneAgentsMax bounds the agents that were marked gone; beyond it the oldest tenth is
	// forgotten. Since FormatBounded.
	GoneAgentsMax = 100_000
	// MaintenanceAgentsMax bounds the agents of one change of maintenance windows.
	MaintenanceAgentsMax = 1000
	// FrameworksMax bounds the frameworks that are not removed.
	FrameworksMax = 100_000
	// FrameworksPerPrincipalMax bounds those of one principal, so that none of them alone
	// takes all there can be. Since FormatBounded.
	FrameworksPerPrincipalMax = 50_000
	// TombstonesMax bounds the removed frameworks; beyond it the oldest tenth is forgotten.
	TombstonesMax = 100_000
	// OperationsMax bounds the operations of one framework that are remembered; beyond it
	// the oldest is forgotten, and who asks for it is told so.
	OperationsMax = 1000
	// OperationsBytesMax bounds their IDs. Since FormatBounded.
	OperationsBytesMax = 64 << 10
	// LostNumbersMax bounds the ranges of numbers that a restore or a recovery has left open.
	LostNumbersMax = 1 << 16
	// RolesMax bounds the roles of which an operator has said anything.
	RolesMax = 10_000
	// TokensMax bounds the tokens by which somebody can join, TokenUsesMax how often one of limited uses can be used,
	// TokenHashBytesMax the hash of a secret or a key. TokenRemembered is how long one that has ended is kept. FirstToken
	// is the ID of the first operator's.
	TokensMax         = 10_000
	TokenUsesMax      = 1000
	TokenHashBytesMax = 128
	TokenRemembered   = 30 * 24 * time.Hour
	FirstToken        = "first"
	// AuthorityBytesMax bounds an authority, sealed; AuthorityDigestBytes is the size of its digest.
	AuthorityBytesMax    = 64 << 10
	AuthorityDigestBytes = 32
	// BarredMax bounds the names of agents that were removed by which nobody comes back, and BarredRemembered is how long
	// one is kept: a certificate of an agent lives for 30 days, and clocks may differ.
	BarredMax        = 10_000
	BarredRemembered = 31 * 24 * time.Hour
	// SealedSecretBytesMax bounds the value of a secret, sealed; SecretsPerRoleMax the secrets of one role, and
	// SecretsBytesMax all of them together.
	SealedSecretBytesMax = api.SecretBytesMax + 64
	SecretsPerRoleMax    = 256
	SecretsBytesMax      = 16 << 20
	// ClientsMax bounds the proposers whose last result is kept; beyond it the tenth
	// that was silent longest is forgotten.
	ClientsMax = 100_000

	// AgentsBytesMax bounds what all agents say of themselves and have reserved,
	// FrameworksBytesMax what all frameworks say of themselves, RolesBytesMax what operators
	// say of roles. Since FormatBounded, like all bounds in bytes but those of the stores.
	AgentsBytesMax     = 512 << 20
	FrameworksBytesMax = 256 << 20
	RolesBytesMax      = 64 << 20
	// SubjectBytesMax bounds what a kept result names as its subject; it is cut off. So is
	// a longer sentence (api.TextBytesMax).
	SubjectBytesMax = api.IDBytesMax
	// ClientBytesMax bounds the name of a proposer.
	ClientBytesMax = 600
	// TombstoneRolesBytesMax bounds the roles that a tombstone remembers; more are forgotten.
	TombstoneRolesBytesMax = 1 << 10

	// PrincipalsMax bounds the principals, revoked ones included until they are forgotten.
	PrincipalsMax = 10_000
	// GrantsMax bounds what one principal was granted.
	GrantsMax = 64
	// ReceiptMarkBytes is the size of what is remembered of the key of receipts.
	ReceiptMarkBytes = 32

	// StoreKeyBytesMax bounds a key of a framework's store.
	StoreKeyBytesMax = 512
	// StoreValueBytesMax bounds a value.
	StoreValueBytesMax = 1 << 20
	// StoreEntriesMax bounds the keys of one framework.
	StoreEntriesMax = 100_000
	// StoreFrameworkBytesMax bounds keys and values of one framework.
	StoreFrameworkBytesMax = 64 << 20
	// StoreBytesMax bounds keys and values of all frameworks; those of one principal have three quarters of it, since
	// FormatTrust, and of FrameworksBytesMax. The leader may be told to
	// refuse earlier; then each write says so (PutEntry.AllMax).
	StoreBytesMax = 1 << 30
)
