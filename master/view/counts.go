package view

import (
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/registry/spent"
)

// Figures are what the leader counts all the time.
type Figures struct {
	Offers     int
	Schedulers int    // streams of schedulers
	Links      int    // streams of agents
	Voices     uint64 // how often agents spoke of what is not theirs, in this term
	Given      uint64 // agents that were marked gone in this term because they were away for too long
	Versions   RefusedVersions
	Principals map[string]Tally // by name; the empty principal is not counted
	Spent      []spent.Row      // who has held and used how much since the leader began
}

// Tally is how much a framework has, or all frameworks of a principal together.
type Tally struct {
	Frameworks int
	Tasks      int
	Shapes     int // of demands
	Offers     int // open ones
	Filters    int // as the policy counts them; only for principals
}

// Plus returns what both have together.
func (t Tally) Plus(u Tally) Tally {
	return Tally{t.Frameworks + u.Frameworks, t.Tasks + u.Tasks, t.Shapes + u.Shapes, t.Offers + u.Offers, t.Filters + u.Filters}
}

// Less returns t minus u.
func (t Tally) Less(u Tally) Tally {
	return Tally{t.Frameworks - u.Frameworks, t.Tasks - u.Tasks, t.Shapes - u.Shapes, t.Offers - u.Offers, t.Filters - u.Filters}
}

// RefusedVersions tells of the agents and schedulers whose version this leader has refused.
type RefusedVersions struct {
	Count uint64 // in this term
	At    time.Time
	Last  string // who it was, and why
}

// Counts are the figures for metrics.
type Counts struct {
	Figures
	Agents     map[api.AgentState]int
	Frameworks Presence
	Tasks      map[api.TaskState]int
	Ill        map[Illness]int
	Apart      int // tasks that no leader has launched
	Overdue    int // agents that wait to be marked gone
	// Revocable is what all agents' tasks leave unused. RevocableUsed is what revocable tasks hold.
	Revocable, RevocableUsed api.Resources
	// Placed holds the sums of the frameworks that say how their tasks were placed.
	Placed    map[api.FrameworkID]Placements
	Capacity  Capacity
	Marked    map[string]int // by mark
	Standings map[api.FrameworkID]Standing
}

// Presence counts frameworks that are not removed.
type Presence struct {
	All      int
	Active   int // that have a scheduler
	Detached int // that have none, and need none ([api.DetachedLabel])
}

// Capacity is what all agents have together that are not taken for dead, and what of it is reserved, held, offered, and
// really used as they last reported.
type Capacity struct {
	All, Reserved, Allocated, Offered, Used Amounts
}

// Standing is what one framework has and wants.
type Standing struct {
	Name, Principal string
	Tasks           int   // that hold resources
	Wanted          int64 // tasks that it has asked for and not been able to launch
	Allocated       Amounts
}

// Amounts are sums of scalar resources by name, whatever their labels.
type Amounts map[string]api.Milli

// Add adds what the resources have.
func (a Amounts) Add(resources api.Resources) {
	for _, item := range resources.Items() {
		if item.Scalar > 0 {
			a[item.Name] += item.Scalar
		}
	}
}

// Counts walks everything once. Only the leader can do it.
func (c Cluster) Counts() Counts {
	counts := Counts{
		Figures: c.Leader.Figures(),
		Agents:  make(map[api.AgentState]int),
		Tasks:   make(map[api.TaskState]int),
		Ill:     make(map[Illness]int),
		Placed:  make(map[api.FrameworkID]Placements),

		Capacity:  Capacity{make(Amounts), make(Amounts), make(Amounts), make(Amounts), make(Amounts)},
		Marked:    make(map[string]int),
		Standings: make(map[api.FrameworkID]Standing),
	}
	for a := range c.Leader.Sizes() {
		counts.addAgent(a, c.Leader.Health(a.ID))
		for _, mark := range c.Registry.Agents[a.ID].Marks.Strings() {
			counts.Marked[mark]++
		}
	}
	for state := range c.Leader.TaskStates() {
		counts.Tasks[state]++
	}
	for range c.Leader.Untold() {
		counts.Tasks[api.TaskUnreachable]++
	}
	for range c.Leader.Apart() {
		counts.Apart++
	}
	for f := range c.Leader.Frameworks() {
		counts.addFramework(f, c.Registry.Frameworks[f.ID].Framework)
		if shown, is := c.Leader.Framework(f.ID); is && f.State != Removed {
			counts.Standings[f.ID] = standingOf(shown)
		}
	}
	return counts
}

func (n *Counts) addAgent(a AgentSize, health Health) {
	n.Agents[a.State]++
	if health.Overdue {
		n.Overdue++
	}
	for _, illness := range Illnesses {
		if health.has(illness) {
			n.Ill[illness]++
		}
	}
	n.Revocable = n.Revocable.Plus(a.Revocable)
	n.RevocableUsed = n.RevocableUsed.Plus(a.Used.Revocable())
	if a.State == api.AgentTombstone {
		return
	}
	n.Capacity.All.Add(a.Total)
	n.Capacity.Reserved.Add(a.Total.Filter(func(l api.Label) bool { return l.Reserved != "" }))
	n.Capacity.Allocated.Add(a.Used)
	n.Capacity.Offered.Add(a.Offered)
	n.Capacity.Used["cpus"] += a.Usage.CPU
	n.Capacity.Used["mem"] += a.Usage.Mem
}

// standingOf sums up what a framework has and wants.
func standingOf(f Framework) Standing {
	s := Standing{Name: f.Framework.Name, Principal: f.Framework.Principal, Tasks: f.Tasks, Allocated: make(Amounts)}
	s.Allocated.Add(f.Allocated)
	for _, demand := range f.Demand {
		for _, shape := range demand.Shapes {
			s.Wanted += shape.Count
		}
	}
	return s
}

func (n *Counts) addFramework(f FrameworkBrief, known api.Framework) {
	if f.State == Removed {
		return
	}
	n.Frameworks.All++
	switch {
	case f.State == Active:
		n.Frameworks.Active++
	case known.Detached():
		n.Frameworks.Detached++
	}
	if f.Placed.Tasks() > 0 {
		n.Placed[f.ID] = f.Placed
	}
}
