package journal

import (
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
)

// Report says how a policy has dealt with the work.
type Report struct {
	Span      time.Duration
	Started   int
	Preempted int
	// Utilisation is the part of cpus and mem that tasks held, averaged over the span.
	Utilisation map[string]float64
	// Shares are the dominant shares of the roles, averaged over the span.
	Shares map[api.Role]float64
	// Waits say how long tasks waited from when they were wanted until they first started, by role; "" is all roles
	// together.
	Waits map[api.Role]Wait
}

// Wait sums up waiting times.
type Wait struct {
	Tasks          int
	Mean, P95, Max time.Duration
}

// measured are the kinds of resources whose utilisation is reported.
var measured = []string{"cpus", "mem"}

// cluster counts what there is, and what tasks hold.
type cluster struct {
	agents map[api.AgentID]allocator.Agent
	total  map[string]float64
	used   map[string]float64
	roles  map[api.Role]map[string]float64
}

func newCluster() *cluster {
	return &cluster{
		agents: make(map[api.AgentID]allocator.Agent), total: make(map[string]float64),
		used: make(map[string]float64), roles: make(map[api.Role]map[string]float64),
	}
}

func (c *cluster) take(input inputs.Input) {
	count := func(id api.AgentID, sign float64) {
		for _, kind := range measured {
			c.total[kind] += sign * float64(c.agents[id].Total.Scalar(kind))
		}
	}
	switch i := input.(type) {
	case inputs.SetAgent:
		count(i.Agent.ID, -1)
		c.agents[i.Agent.ID] = i.Agent
		count(i.Agent.ID, +1)
	case inputs.RemoveAgent:
		count(i.Agent, -1)
		delete(c.agents, i.Agent)
	}
}

func (c *cluster) use(job *job, starts bool) {
	sign := 1.0
	if !starts {
		sign = -1
	}
	role := c.roles[job.who.role]
	if role == nil {
		role = make(map[string]float64)
		c.roles[job.who.role] = role
	}
	for _, kind := range measured {
		amount := sign * float64(job.resources.Scalar(kind))
		c.used[kind] += amount
		role[kind] += amount
	}
}

// report collects a Report as time passes.
type report struct {
	began, at time.Time
	total     map[string]float64 // amounts times seconds
	used      map[string]float64
	shares    map[api.Role]float64
	waits     map[api.Role][]time.Duration
	waited    map[*job]bool
	preempted int
}

func newReport() *report {
	return &report{
		total: make(map[string]float64), used: make(map[string]float64), shares: make(map[api.Role]float64),
		waits: make(map[api.Role][]time.Duration), waited: make(map[*job]bool),
	}
}

// pass adds the time since the last call, during which the cluster was as it is in c.
func (r *report) pass(c *cluster, now time.Time) {
	if r.began.IsZero() {
		r.began, r.at = now, now
	}
	if !now.After(r.at) {
		return
	}
	span := now.Sub(r.at).Seconds()
	r.at = now
	for _, kind := range measured {
		r.total[kind] += span * c.total[kind]
		r.used[kind] += span * c.used[kind]
	}
	for role, used := range c.roles { // order: irrelevant because each is summed by itself
		share := 0.0
		for _, kind := range measured {
			if c.total[kind] > 0 {
				share = max(share, used[kind]/c.total[kind])
			}
		}
		r.shares[role] += span * share
	}
}

// wait notes the first start of a task.
func (r *report) wait(job *job, started time.Time) {
	if r.waited[job] {
		return
	}
	r.waited[job] = true
	waited := started.Sub(job.wanted)
	r.waits[""] = append(r.waits[""], waited)
	r.waits[job.who.role] = append(r.waits[job.who.role], waited)
}

func (r *report) done(end time.Time) Report {
	done := Report{
		Span: end.Sub(r.began), Started: len(r.waited), Preempted: r.preempted,
		Utilisation: make(map[string]float64), Shares: make(map[api.Role]float64), Waits: make(map[api.Role]Wait),
	}
	for _, kind := range measured {
		if r.total[kind] > 0 {
			done.Utilisation[kind] = r.used[kind] / r.total[kind]
		}
	}
	for role, sum := range r.shares { // order: irrelevant because each is divided by itself
		if done.Span > 0 {
			done.Shares[role] = sum / done.Span.Seconds()
		}
	}
	for role, waits := range r.waits { // order: irrelevant because each is summed by itself
		done.Waits[role] = waitOf(waits)
	}
	return done
}

func waitOf(waits []time.Duration) Wait {
	slices.Sort(waits)
	var sum time.Duration
	for _, waited := range waits {
		sum += waited
	}
	n := len(waits)
	return Wait{Tasks: n, Mean: sum / time.Duration(n), P95: waits[(n*95+99)/100-1], Max: waits[n-1]}
}
