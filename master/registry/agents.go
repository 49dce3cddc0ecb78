package registry

import (
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// AdmitAgent gives an agent its ID. A known nonce gets the ID that it has already (R7).
type AdmitAgent struct {
	Agent  api.Agent
	Nonce  api.Nonce
	BootID string
}

// apply gives an ID to an agent that has none. An agent that names an ID which this registry never gave out, because it
// was restored from an older snapshot, keeps that ID.
func (change AdmitAgent) apply(s *State, at time.Time) Result {
	const op = "agent.admit"
	id := change.Agent.ID
	if bad := refuseID(op, "nonce", string(change.Nonce)); bad != nil {
		return *bad
	}
	if known, ok := s.index().agentOf[change.Nonce]; ok {
		return s.admitAgain(s.Agents[known], change)
	}
	if old, ok := s.Agents[id]; ok {
		return refuse(op, api.Exists, id, "the agent with this ID on %s registered with another nonce: a cloned data folder?", old.Agent.Hostname)
	}
	if s.countedAgents() >= AgentsMax {
		return refuse(op, api.Limit, change.Agent.Hostname, "%d agents are admitted; remove those that are gone first", AgentsMax)
	}
	if _, barred := s.Barred[change.Nonce]; barred {
		return refuse(op, api.Removed, id, "the agent was removed; with an empty data folder it registers as a new one")
	}
	admitted := Agent{Agent: change.Agent, Nonce: change.Nonce, BootID: change.BootID, MarksVersion: 1, Admitted: at}
	if bad := s.noRoomForAgent(op, admitted); bad != nil {
		return *bad
	}
	if id == "" {
		change.Agent.ID = api.AgentID("agent-" + mint(&s.NextAgent))
	} else if bad := s.takeAgentNumber(id); bad != nil {
		return *bad
	}
	s.index().agentOf[change.Nonce] = change.Agent.ID
	admitted.Agent.ID = change.Agent.ID
	s.setAgent(admitted)
	return Result{Agent: change.Agent.ID}
}

func (AdmitAgent) saw() sight { return blind("an agent says it of itself; its nonce and ID decide") }

// IsNew reports whether an agent with this nonce and ID would be admitted as one that was never here: no remembered
// agent has the nonce, and the ID was never given out. A registry that was restored has forgotten IDs that were given
// out (R37), so for an agent with an ID it answers no.
func (s *State) IsNew(nonce api.Nonce, id api.AgentID) bool {
	if _, known := s.AgentOf(nonce); known {
		return false
	}
	n, err := number(string(id), "agent")
	return id == "" || err == nil && n >= max(s.NextAgent, 1) && s.Epoch == 0
}

func (s *State) takeAgentNumber(id api.AgentID) *Result {
	n, err := number(string(id), "agent")
	if err != nil {
		return &Result{Err: api.E("agent.admit", api.Invalid, id, err)}
	}
	if len(s.LostAgents) >= LostNumbersMax {
		return refusal("agent.admit", api.Limit, id, "%d ranges of lost numbers are remembered", LostNumbersMax)
	}
	if s.takeNumber(&s.NextAgent, &s.LostAgents, n) {
		return refusal("agent.admit", api.Removed, id, "the agent was removed; with an empty data folder it registers as a new one")
	}
	return nil
}

// admitAgain handles a repeated first contact, whose answer was lost (R7).
func (s *State) admitAgain(old Agent, change AdmitAgent) Result {
	const op = "agent.admit"
	id := old.Agent.ID
	switch {
	case change.Agent.ID != "" && change.Agent.ID != id:
		return refuse(op, api.Exists, change.Agent.ID, "this nonce belongs to %s: a cloned data folder?", id)
	case old.Marks.Has(api.MarkGone):
		return refuse(op, api.Removed, id, "the agent was marked gone; with an empty data folder it registers as a new one")
	}
	old.Agent = change.Agent
	old.Agent.ID = id
	old.BootID = change.BootID
	return s.putAgent(op, old)
}

// UpdateAgent replaces what an admitted agent says about itself.
type UpdateAgent struct {
	Agent  api.Agent
	BootID string
}

func (change UpdateAgent) apply(s *State, _ time.Time) Result {
	const op = "agent.update"
	old, bad := s.agent(op, change.Agent.ID)
	switch {
	case bad != nil:
		return *bad
	case old.Marks.Has(api.MarkGone):
		return refuse(op, api.Removed, change.Agent.ID, "the agent was marked gone")
	}
	old.Agent = change.Agent
	old.BootID = change.BootID
	return s.putAgent(op, old)
}

func (UpdateAgent) saw() sight {
	return blind("an agent says it of itself; what it said last is right")
}

const allMarks = api.MarkDraining | api.MarkDrained | api.MarkDeactivated | api.MarkGone

// MarkAgent sets and clears marks of an agent, if its marks and maintenance are still those of the version Saw. It is
// drained only while it is draining.
type MarkAgent struct {
	ID    api.AgentID
	Saw   uint64 // MarksVersion, or Whatever
	Set   api.Mark
	Clear api.Mark
	Grace time.Duration
	Why   string
}

func (change MarkAgent) apply(s *State, at time.Time) Result {
	const op = "agent.mark"
	old, bad := s.agent(op, change.ID)
	switch {
	case bad != nil:
		return *bad
	case (change.Set|change.Clear)&^allMarks != 0:
		return refuse(op, api.Unsupported, change.ID, "this version knows no such mark")
	case old.Marks.Has(api.MarkGone) && change.Clear.Has(api.MarkGone):
		return refuse(op, api.Removed, change.ID, "an agent that was marked gone never comes back; it may register as a new one")
	}
	marks := old.Marks&^change.Clear | change.Set
	if !marks.Has(api.MarkDraining) {
		if change.Set.Has(api.MarkDrained) {
			return refuse(op, api.Invalid, change.ID, "an agent is drained only while it is draining")
		}
		marks &^= api.MarkDrained
	}
	if change.Set.Has(api.MarkGone) && !old.Marks.Has(api.MarkGone) {
		old.Gone, old.Kills = at, nil // its tasks are GONE_BY_OPERATOR
	}
	old.Marks = marks
	old.MarksVersion++
	if change.Set != 0 {
		old.Why = change.Why
	}
	if change.Set.Has(api.MarkDraining) {
		old.Grace = change.Grace
	}
	if old.Marks == 0 {
		old.Grace, old.Why = 0, ""
	}
	// Whoever takes back the drain of a maintenance also ends the maintenance.
	if old.Maintained && !old.Marks.Has(api.MarkDraining) {
		old.Maintenance, old.Maintained = api.Window{}, false
	}
	s.setAgent(old)
	s.forgetGone(at)
	return Result{Agent: change.ID}
}

func (change MarkAgent) saw() sight {
	return sawAgent("agent.mark", change.ID, change.Saw)
}

// RemoveAgent removes an agent, if it is the one of this nonce, and its marks and maintenance are still those of the
// version Saw.
type RemoveAgent struct {
	ID    api.AgentID
	Nonce api.Nonce
	Saw   uint64 // MarksVersion, or Whatever
}

func (change RemoveAgent) apply(s *State, at time.Time) Result {
	const op = "agent.remove"
	agent, bad := s.agent(op, change.ID)
	switch {
	case bad != nil:
		return *bad
	case agent.Nonce != change.Nonce:
		return refuse(op, api.Stale, change.ID, "another agent has come with this ID since that was decided, on %s; look at it and, if you still want it, ask again", agent.Agent.Hostname)
	}
	s.forgetAgent(change.ID)
	s.bar(agent.Nonce, at)
	return Result{Agent: change.ID}
}

func (change RemoveAgent) saw() sight {
	return sawAgent("agent.remove", change.ID, change.Saw)
}

// bar keeps out agents with the nonce of an agent that was removed, because a copy of its certificate may be in other
// hands. The nonce is remembered until no certificate with it can be valid, or until there are too many; then the
// oldest tenth is forgotten. An agent whose certificate was signed more than a day ago is not admitted as a new one
// anyway.
func (s *State) bar(nonce api.Nonce, at time.Time) {
	s.Barred = copied(s.Barred)
	maps.DeleteFunc(s.Barred, func(_ api.Nonce, since time.Time) bool { return at.Sub(since) > BarredRemembered })
	if len(s.Barred) >= BarredMax {
		for _, old := range oldest(s.Barred) {
			delete(s.Barred, old)
		}
	}
	s.Barred[nonce] = at
}

// countedAgents returns the number of agents that AgentsMax bounds.
func (s *State) countedAgents() int { return len(s.Agents) - s.index().gone }

// putAgent replaces an agent, if there is room for what it has become.
func (s *State) putAgent(op string, now Agent) Result {
	if bad := s.noRoomForAgent(op, now); bad != nil {
		return *bad
	}
	s.setAgent(now)
	return Result{Agent: now.Agent.ID}
}

func (s *State) noRoomForAgent(op string, now Agent) *Result {
	more := now.bytes()
	if was, known := s.Agents[now.Agent.ID]; known {
		more -= was.bytes()
	}
	return s.noRoom(op, now.Agent.Hostname, "agents", s.index().agentBytes, more, AgentsBytesMax)
}

// SetReserved replaces an agent's dynamic reservations and volumes, if it still has what the proposer saw. Done lists
// the framework's operations that this change carries out.
type SetReserved struct {
	ID        api.AgentID
	Saw       api.Resources
	Reserved  api.Resources
	Framework api.FrameworkID
	Done      []api.OperationID
}

func (change SetReserved) apply(s *State, _ time.Time) Result {
	old, bad := s.agent("agent.reserve", change.ID)
	if bad != nil {
		return *bad
	}
	volumes, next, bad := s.volumesAfter(old, change.Reserved)
	if bad != nil {
		return *bad
	}
	old.Reserved, old.Volumes = change.Reserved, volumes
	if bad := s.noRoomForAgent("agent.reserve", old); bad != nil {
		return *bad
	}
	s.NextVolume = next
	s.setAgent(old)
	s.operationsDone(change)
	return Result{Agent: change.ID}
}

func (change SetReserved) saw() sight { return sawReserved{change.ID, change.Saw} }

// operationsDone remembers which operations were done, so that the framework can ask (R26). A framework that was
// removed meanwhile does not ask.
func (s *State) operationsDone(change SetReserved) {
	framework, known := s.Frameworks[change.Framework]
	if !known || !framework.Removed.IsZero() || len(change.Done) == 0 {
		return
	}
	before := slices.DeleteFunc(slices.Clone(framework.Operations), func(o Operation) bool {
		return slices.Contains(change.Done, o.ID) // of an ID that is used again only the latest is kept
	})
	for _, id := range change.Done {
		before = append(before, Operation{id, change.ID})
	}
	before = before[max(len(before)-OperationsMax, 0):]
	for operationsBytes(before) > OperationsBytesMax {
		before = before[1:]
	}
	framework.Operations = before
	s.replace(framework)
}

func (s *State) agent(op string, id api.AgentID) (Agent, *Result) {
	agent, ok := s.Agents[id]
	if !ok {
		return agent, refusal(op, api.NotFound, id, "no such agent is admitted")
	}
	return agent, nil
}

// Total returns the agent's resources, with those labels that dynamic reservations have changed. An agent that has come
// back with less than is reserved on it has only as much of that as there is. (Promise 1.)
func (a Agent) Total() api.Resources {
	total, _ := a.coverReserved()
	return total
}

// Uncovered returns what is reserved on the agent and is not there. It stays reserved.
func (a Agent) Uncovered() api.Resources {
	_, covered := a.coverReserved()
	return a.Reserved.Without(covered)
}

// coverReserved gives what the agent has to its volumes, then to its other reservations. A volume is there whole or not at
// all.
func (a Agent) coverReserved() (total, covered api.Resources) {
	left := a.Agent.Resources
	for _, volumes := range []bool{true, false} {
		for _, item := range a.Reserved.Items() {
			if (item.Volume != "") != volumes {
				continue
			}
			plain := item
			plain.Label = api.Label{Name: item.Name}
			there := api.NewResources(plain).Intersect(left)
			if there.IsZero() || volumes && !there.Equal(api.NewResources(plain)) {
				continue
			}
			left = left.Without(there)
			reserved := there.Items()[0]
			reserved.Label = item.Label
			covered = covered.Plus(api.NewResources(reserved))
		}
	}
	return left.Plus(covered), covered
}
