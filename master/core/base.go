package core

import (
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// base is what all rooms of the core stand on: the event at hand, the settings, the leader's copy of the registry, the
// policy, the deadlines, and who there is. It decides nothing.
type base struct {
	config    Config
	term      api.Term
	registry  *registry.State // own copy, as far as the commits it was told of
	policy    allocator.Allocator
	deadlines deadlines

	now  time.Time // of the event at hand
	came time.Time // when it came to this master
	out  []Effect  // of the event at hand

	agentByID     map[api.AgentID]*agent         // the admitted ones
	frameworkByID map[api.FrameworkID]*framework // until removed and nothing of them runs
	sessionByConn map[Conn]*session              // schedulers' streams

	mastersAt uint64 // counts changes of the masters' addresses
	voices    uint64 // words of agents about what is not theirs, refused in this term
	strays    uint64 // statuses of agents of frameworks that are not there
	versions  view.RefusedVersions
}

// emit adds an effect to those of the event at hand.
func (b *base) emit(effect Effect) { b.out = append(b.out, effect) }
