// Package core makes the leader's decisions: who is offered what, which answers
// stand, what becomes of tasks, agents and frameworks. The master's shell owns the
// world; the core is a value that turns events into effects.
//
// It is pure: no clock, goroutine, lock, I/O or randomness; the same events give the
// same effects, byte for byte. A broken invariant panics with invariant.Broken, which
// ends this leadership (R18).
package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// Config is what the core is made from. Zero fields mean the documented defaults.
type Config struct {
	Master  api.MasterID
	Masters []string // gRPC addresses that agents and schedulers are told; from the registry when empty
	Client  string   // identity of this leadership's proposals (R17): master and term

	HeartbeatInterval time.Duration // of agents and schedulers. Default 1 s
	SessionTimeout    time.Duration // without a sign of life the session is over. Default 5 s
	TombstoneAfter    time.Duration // of silence an agent is taken for dead. Default 30 s
	GoneAfter         time.Duration // as TOMBSTONE an agent is marked gone. Default 7 days; negative = never
	OfferTimeout      time.Duration // an offer may be held. Default 30 s
	RecoveryHold      time.Duration // R20. Default 10 s
	FailoverTimeout   time.Duration // of frameworks that say none. Default 10 min
	PreemptionGrace   time.Duration // between an inverse offer and the kill. Default 10 s
}

// Core is the leader's mind for one term. Not safe for concurrent use: the shell's
// loop owns it.
type Core struct{}

// New makes the core of a leader whose registry is as given (the core keeps its own
// copy) and who leads in this term. Nothing is known yet but what the registry says.
func New(config Config, state *registry.State, term api.Term, policy allocator.Allocator, now time.Time) *Core {
	return &Core{}
}

// Step takes one event. The effects are performed before the next Allocate's.
func (c *Core) Step(event Event) []Effect { return nil }

// Allocate lets the policy run once after a batch of events, and returns the offers.
func (c *Core) Allocate(now time.Time) []Effect { return nil }

// Wake is when the core wants to be woken, zero for never. Asked after every batch.
func (c *Core) Wake() time.Time { return time.Time{} }
