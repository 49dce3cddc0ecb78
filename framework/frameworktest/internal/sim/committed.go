package sim

import (
	"maps"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry"
)

// decided is what the quorum has decided and said to somebody, as far as a later decision can break it.
type decided struct {
	subscribed map[api.FrameworkID]time.Time     // when a scheduler got its latest session
	asked      map[api.FrameworkID]time.Time     // when somebody was told that the framework is removed
	timeouts   map[api.FrameworkID]time.Duration // failover times
	nonces     map[api.Nonce]api.AgentID
	removed    map[api.AgentID]bool
	looks      looks
}

func newDecided() decided {
	return decided{
		subscribed: map[api.FrameworkID]time.Time{}, asked: map[api.FrameworkID]time.Time{}, timeouts: map[api.FrameworkID]time.Duration{},
		nonces: map[api.Nonce]api.AgentID{}, removed: map[api.AgentID]bool{}, looks: newLooks(),
	}
}

// checkCommand has the registry apply a command, and notes what it means. The checks here look at nothing but the
// registry before and after it, at what was said, and at what really runs.
func (t *truth) checkCommand(state *registry.State, command registry.Command) registry.Result {
	switch change := command.Change.(type) {
	case registry.SetReserved:
		before := state.Agents[change.ID].Reserved
		defer func() { t.noteReserved(change.ID, before, state.Agents[change.ID].Reserved) }()
	case registry.MarkAgent:
		defer t.checkMarks(state, change.ID, state.Agents[change.ID].Marks)
	case registry.BeginMaintenance:
		defer t.checkMarks(state, change.ID, state.Agents[change.ID].Marks)
	case registry.SetMaintenance:
		for _, id := range change.Agents {
			defer t.checkMarks(state, id, state.Agents[id].Marks)
		}
	default: // what else there is concerns nobody here
	}
	before, last := maps.Clone(state.Frameworks), state.Clients[command.Client].Counter
	behind := t.checkLooked(state, command)
	result := state.Apply(command)
	t.checkStores(state)
	if repeated := command.Client != "" && command.Counter <= last; !repeated {
		behind(result)
		if result.Err == nil {
			t.checkDecision(state, command, result, before)
		}
	}
	return result
}

// checkDecision checks a change that was made against what was decided before.
func (t *truth) checkDecision(state *registry.State, command registry.Command, result registry.Result, before map[api.FrameworkID]registry.Framework) {
	w := t.world
	switch change := command.Change.(type) {
	case registry.Subscribe:
		id := result.Framework
		if was, is := before[id]; is && result.Session <= was.Session {
			w.breakStory("the takeover of framework %s did not raise its session %d (R5)", id, was.Session)
		}
		t.frameworks[id] = true
		t.decided.subscribed[id] = w.now
		t.decided.timeouts[id] = state.Frameworks[id].Framework.FailoverTimeout
	case registry.PutEntry:
		if now := before[change.Framework].Session; change.Session < now {
			w.breakStory("a write of session %d of %s counts in session %d (R5)", change.Session, change.Framework, now)
		}
	case registry.RemoveFramework:
		t.removedFramework(state, change)
	case registry.AdmitAgent:
		if known, is := t.decided.nonces[change.Nonce]; is && known != result.Agent && !w.quorum.restored {
			w.breakStory("nonce %s was given the ID %s, and now %s (R7)", change.Nonce, known, result.Agent)
		}
		if t.decided.removed[result.Agent] && !w.quorum.restored {
			w.breakStory("agent %s was removed, and is admitted again", result.Agent)
		}
		t.decided.nonces[change.Nonce] = result.Agent
	case registry.RemoveAgent:
		t.decided.removed[change.ID] = true
	default: // no other change can break what was decided
	}
}

// removedFramework checks that a framework is removed only when somebody has asked for it since its scheduler came
// last, or when its failover time is over.
func (t *truth) removedFramework(state *registry.State, change registry.RemoveFramework) {
	if change.Why == "torn down by its scheduler" {
		return
	}
	since := t.decided.subscribed[change.ID]
	if asked, is := t.decided.asked[change.ID]; is && !asked.Before(since) {
		return
	}
	if timeout := t.decided.timeouts[change.ID]; t.world.now.Sub(since) < timeout*9/10 && timeout > 0 && !t.world.quorum.restored {
		t.world.breakStory("framework %s is removed %v after its scheduler came, and its failover time is %v (R5): %s",
			change.ID, t.world.now.Sub(since), timeout, change.Why)
	}
	if state.Frameworks[change.ID].Removed.IsZero() {
		t.world.breakStory("framework %s was removed, and that is not remembered", change.ID)
	}
}

// checkMarks checks the marks of an agent after a change: one that is drained drains, and nothing runs there (R31).
func (t *truth) checkMarks(state *registry.State, id api.AgentID, before api.Mark) {
	after := state.Agents[id].Marks
	if after.Has(api.MarkDrained) && !after.Has(api.MarkDraining) {
		t.world.breakStory("agent %s is marked drained and does not drain (R31)", id)
	}
	if before.Has(api.MarkDrained) || !after.Has(api.MarkDrained) {
		return
	}
	for _, m := range t.world.machines {
		if m.agentOf() != id || m.twin {
			continue
		}
		if labels := t.livingOn(m); len(labels) > 0 {
			t.world.breakStory("agent %s is marked drained, and %v run on %s (R31)", id, labels, m.name)
		}
	}
}
