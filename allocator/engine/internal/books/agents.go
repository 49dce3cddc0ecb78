package books

import (
	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/api"
)

// Agent is what the engine knows of an agent. What every look at it needs is here, close together; everything else is
// in Details, so that a walk over all agents touches little memory.
type Agent struct {
	Number int32
	Last   int32 // the member that got its last offer; -1 = none
	agentState
	agentMarks
	LastAt Instant // when its last offer was made
	Looked uint64
	ID     api.AgentID

	Open    api.Resources     // may be offered
	Free    api.Resources     // held by nobody; more than Open if more is used than was asked for
	Counted Amounts           // Open without what is revocable
	offered holdings          // its open offers
	Filters map[int32]*Filter // by member number
	Keeps   []*Keep           // what preemption frees here, and for whom
	Beyond  Amounts           // used beyond what was asked for
	Plans   []Planned         // what its open offers were sized for
	*Details
}

// agentState says what state an agent is in.
type agentState struct {
	Offerable bool
	Plain     bool // none of it is reserved or revocable, so everybody may use all of it
	Oversold  bool // more is held than there is
}

// agentMarks say why an agent has to be looked at.
type agentMarks struct {
	Dirty   bool // any member may take more of it than before
	Waiting bool // it is in Dirty.Pending
	Noted   bool // seen or Owed has something for this agent
}

// Details are the parts of an agent that most looks do not need.
type Details struct {
	counts  []tasksOf // numbers of its tasks, by member and group
	Pending []int32   // members that may take something of it again
	spare   Amounts   // its part of Promises.Spare
	Tasks   []*Task   // by launch; only if the policy preempts
	look    *look
	seen    []seen   // what members could have had when they were offered a part of it
	Owed    api.Role // the role whose guarantee was the reason of its last offer; "" = none
	claimed holdings // what tasks and executors hold
	Spec    allocator.Agent
	// NextPort is the port behind the last one that was offered to a demand for any.
	NextPort uint64
}

// detailsSlab is for how many agents memory is allocated at once.
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

// Idle adds the amount to what is reserved for the role and not held.
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

// SetFree sets what nobody holds. counted is the same as amounts, if they are known; otherwise nil.
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

// unused returns what is free, less what is used beyond the requests; that is taken from unreserved resources first.
// Revocable resources were computed without it already.
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
