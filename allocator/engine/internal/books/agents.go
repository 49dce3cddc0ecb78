package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Agent is what the engine knows of an agent. What each look at it needs stands here, close together; all else stands
// apart, so that a walk over all agents touches little memory.
type Agent struct {
	Number int32
	Last   int32 // member of its last offer; -1 = none
	agentState
	agentMarks
	LastAt Instant // when its last offer was made
	Looked uint64
	ID     api.AgentID

	Open    api.Resources     // what may be offered
	Free    api.Resources     // held by nobody; more than open when more is used than was asked for
	Counted Amounts           // open, without what is revocable
	offered holdings          // its open offers
	Filters map[int32]*Filter // by member number
	Keeps   []*Keep           // what preemption frees here, and for whom it is kept
	Beyond  Amounts           // used beyond what was asked for
	Plans   []Planned         // what its open offers were sized for
	*Details
}

// agentState is how an agent is.
type agentState struct {
	Offerable bool
	Plain     bool // nothing of it is reserved or revocable, so that all may use all of it
	Oversold  bool // more is held than there is
}

// agentMarks say why an agent is looked at.
type agentMarks struct {
	Dirty   bool // any member may take more of it than before
	Waiting bool // it stands in Dirty.Pending
	Noted   bool // something is noted in seen or owed
}

// Details are what most looks at an agent do not need.
type Details struct {
	counts  []tasksOf // of its tasks, by member and group
	Pending []int32   // members that may take something of it again
	spare   Amounts   // its part of Promises.Spare
	Tasks   []*Task   // by launch; only if the policy preempts
	look    *look
	seen    []seen   // what members could have had when they were offered a part
	Owed    api.Role // whose guarantee its last offer went before all others for; "" = none's
	claimed holdings // what tasks and executors have
	Spec    allocator.Agent
}

// detailsSlab is for how many agents memory is allocated together.
const detailsSlab = 16

func (f *fleet) NewAgent(id api.AgentID) *Agent {
	if len(f.details) == 0 {
		f.details = make([]Details, detailsSlab)
	}
	a := &Agent{ID: id, Last: -1, agentState: agentState{Plain: true}, Details: &f.details[0]}
	f.details = f.details[1:]
	if last := len(f.AgentHoles) - 1; last >= 0 {
		a.Number = f.AgentHoles[last]
		f.AgentHoles = f.AgentHoles[:last]
		f.Agents[a.Number] = a
	} else {
		a.Number = int32(len(f.Agents))
		f.Agents = append(f.Agents, a)
	}
	f.AgentNumbers[id] = a.Number
	return a
}

// Idle adds to what is reserved for the role and not held.
func (b *Books) Idle(r *Role, kind int, amount int64) {
	r.Idle.AddAt(kind, amount)
	for above := r; above != nil; above = above.Parent {
		above.Taken.AddAt(kind, amount)
		b.Fill(above)
		b.TouchRole(above)
	}
	if r.Promise.Near {
		b.RecountNeed(r)
	}
}

// SetFree replaces what is held by nobody. counted is its amounts when they are known.
func (b *Books) SetFree(a *Agent, free api.Resources, counted Amounts) {
	a.Free, a.Open = free, free
	if !a.Beyond.Zero() {
		a.Open, counted = b.unused(a), nil
	}
	switch {
	case a.Open.IsZero():
		a.Counted = a.Counted[:0]
	case counted != nil:
		a.Counted.Set(counted)
	default:
		a.Counted = b.Kinds.Count(a.Counted, a.Open, nil)
	}
	b.CountSpare(a)
}

func (f *fleet) AgentOf(id api.AgentID) *Agent {
	number, known := f.AgentNumbers[id]
	if !known {
		return nil
	}
	return f.Agents[number]
}

// unused is what is free less what is used beyond the requests, unreserved first. What is
// revocable has been counted without it.
func (b *Books) unused(a *Agent) api.Resources {
	open := a.Free
	for kind, excess := range a.Beyond {
		for _, item := range a.Free.Items() {
			if excess <= 0 {
				break
			}
			if item.Name != b.Kinds.Names[kind] || item.Scalar == 0 || item.Volume != "" || item.Revocable {
				continue
			}
			item.Scalar = min(item.Scalar, api.Milli(excess))
			excess -= int64(item.Scalar)
			open = open.Without(api.NewResources(item))
		}
	}
	return open
}
