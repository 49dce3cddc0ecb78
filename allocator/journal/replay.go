package journal

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/api"
)

// Replay plays the work of a section with a policy. Tasks ask for the same resources from the same moment on, and run
// for as long as they did, but start when this policy lets them. Every framework states its demand, and launches what
// fits into an offer in the order in which it was wanted.
func Replay(section *Section, policy allocator.Allocator) Report {
	r := &replay{
		policy: policy, work: workOf(section), queues: make(map[queueKey][]*job), running: make(map[api.TaskRef]*run),
		cluster: newCluster(), report: newReport(),
	}
	r.playAll()
	return r.report.done(r.work.end)
}

// Recorded reports what happened when the section was recorded.
func Recorded(section *Section) Report {
	w := workOf(section)
	c, report := newCluster(), newReport()
	type edge struct {
		at    time.Time
		job   *job
		start bool
	}
	var edges []edge
	for _, job := range w.jobs {
		edges = append(edges, edge{job.started, job, true})
		if job.ended {
			edges = append(edges, edge{job.started.Add(job.ran), job, false})
		}
		report.wait(job, job.started)
	}
	report.pass(c, w.begin)
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	for _, h := range w.world {
		for len(edges) > 0 && edges[0].at.Before(h.at) {
			report.pass(c, edges[0].at)
			c.use(edges[0].job, edges[0].start)
			edges = edges[1:]
		}
		report.pass(c, h.at)
		c.take(h.input)
	}
	for _, e := range edges {
		report.pass(c, e.at)
		c.use(e.job, e.start)
	}
	report.pass(c, w.end)
	return report.done(w.end)
}

// run is a job that runs in the replay.
type run struct {
	job   *job
	claim allocator.Claim
	ends  time.Time
}

type replay struct {
	policy  allocator.Allocator
	work    *work
	now     time.Time
	world   int // number of happenings that have happened
	arrived int // number of jobs that are wanted by now
	byWant  []*job
	queues  map[queueKey][]*job
	running map[api.TaskRef]*run
	ends    []*run // ordered by end
	cluster *cluster
	report  *report
}

// roundsMax bounds the calls of the policy at one moment. Each but the last starts something; more than this shows that
// the policy does not come to rest.
const roundsMax = 10_000

func (r *replay) playAll() {
	r.byWant = slices.Clone(r.work.jobs)
	slices.SortStableFunc(r.byWant, func(a, b *job) int { return a.wanted.Compare(b.wanted) })
	for r.now = r.work.begin; ; {
		r.report.pass(r.cluster, r.now)
		r.doWhatHappens()
		r.finishRuns()
		r.queueArrivals()
		for range roundsMax {
			if !r.callPolicy() {
				break
			}
		}
		next := r.nextMoment()
		if next.IsZero() || next.After(r.work.end) {
			r.report.pass(r.cluster, r.work.end)
			return
		}
		r.now = next
	}
}

// nextMoment returns the earliest moment after now at which something happens.
func (r *replay) nextMoment() time.Time {
	var soonest time.Time
	consider := func(t time.Time) {
		if t.After(r.now) && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	if r.world < len(r.work.world) {
		consider(r.work.world[r.world].at)
	}
	if r.arrived < len(r.byWant) {
		consider(r.byWant[r.arrived].wanted)
	}
	if len(r.ends) > 0 {
		consider(r.ends[0].ends)
	}
	consider(r.policy.Wake())
	return soonest
}

func (r *replay) doWhatHappens() {
	for r.world < len(r.work.world) && !r.work.world[r.world].at.After(r.now) {
		input := r.work.world[r.world].input
		r.world++
		switch i := input.(type) {
		case inputs.RemoveAgent:
			r.endRuns(func(claim allocator.Claim) bool { return claim.Agent == i.Agent })
		case inputs.RemoveFramework:
			r.endRuns(func(claim allocator.Claim) bool { return claim.Framework == i.Framework })
			for key := range r.queues { // order: irrelevant because each is deleted by itself
				if key.framework == i.Framework {
					delete(r.queues, key)
				}
			}
		}
		input.Apply(r.policy)
		r.cluster.take(input)
		if i, is := input.(inputs.SetFramework); is {
			for _, role := range i.Framework.Roles {
				r.stateDemand(queueKey{i.Framework.ID, role})
			}
		}
	}
}

// endRuns ends the runs that can no longer run where they are.
func (r *replay) endRuns(which func(allocator.Claim) bool) {
	for _, ending := range slices.Clone(r.ends) {
		if which(ending.claim) {
			r.stopRun(ending)
		}
	}
}

func (r *replay) stopRun(stopped *run) {
	r.ends = slices.DeleteFunc(r.ends, func(other *run) bool { return other == stopped })
	delete(r.running, api.TaskRef{Framework: stopped.claim.Framework, Task: stopped.claim.Task})
	r.policy.Return(stopped.claim)
	r.cluster.use(stopped.job, false)
}

func (r *replay) finishRuns() {
	for len(r.ends) > 0 && !r.ends[0].ends.After(r.now) {
		r.stopRun(r.ends[0])
	}
}

func (r *replay) queueArrivals() {
	for r.arrived < len(r.byWant) && !r.byWant[r.arrived].wanted.After(r.now) {
		arrival := r.byWant[r.arrived]
		r.arrived++
		r.queues[arrival.who] = append(r.queues[arrival.who], arrival)
		r.stateDemand(arrival.who)
	}
}

// stateDemand states what the queue wants, as shapes.
func (r *replay) stateDemand(who queueKey) {
	shapes := []api.Shape{}
	for _, waiting := range r.queues[who] {
		i := slices.IndexFunc(shapes, func(s api.Shape) bool { return s.Resources.Equal(waiting.resources) })
		if i < 0 {
			shapes = append(shapes, api.Shape{Resources: waiting.resources, Count: 1})
		} else {
			shapes[i].Count++
		}
	}
	r.policy.SetDemand(who.framework, who.role, shapes)
}

// callPolicy calls the policy once, and reports whether anything was started or killed.
func (r *replay) callPolicy() bool {
	allocation := r.policy.Allocate(r.now)
	moved := false
	for _, offer := range allocation.Offers {
		moved = r.launchInto(offer) || moved
	}
	for _, inverse := range allocation.Inverse {
		for _, victim := range inverse.Victims {
			if killed := r.running[api.TaskRef{Framework: victim.Framework, Task: victim.Task}]; killed != nil {
				r.report.preempted++
				r.stopRun(killed)
				r.queues[killed.job.who] = append(r.queues[killed.job.who], killed.job)
				r.stateDemand(killed.job.who)
				moved = true
			}
		}
	}
	return moved
}

// launchInto launches the tasks that fit into the offer.
func (r *replay) launchInto(offer allocator.Claim) bool {
	who := queueKey{offer.Framework, offer.Role}
	left := offer.Resources
	var waiting []*job
	moved := false
	for _, next := range r.queues[who] {
		taken, rest, fits := left.Carve(next.resources)
		if !fits {
			waiting = append(waiting, next)
			continue
		}
		left, moved = rest, true
		r.launchJob(next, offer, taken)
	}
	r.queues[who] = waiting
	if moved {
		r.stateDemand(who)
	}
	if !left.IsZero() {
		rest := offer
		rest.Resources = left
		r.policy.Return(rest)
		r.policy.Refuse(rest, r.now.Add(5*time.Second))
	}
	return moved
}

func (r *replay) launchJob(next *job, offer allocator.Claim, taken api.Resources) {
	claim := offer
	claim.Resources, claim.Task, claim.Since = taken, next.task, r.now
	r.policy.Launch(claim)
	r.cluster.use(next, true)
	r.report.wait(next, r.now)
	started := &run{job: next, claim: claim, ends: r.now.Add(next.ran)}
	if !next.ended { // it runs on beyond the end of the record
		started.ends = r.work.end.Add(time.Second)
	}
	r.running[api.TaskRef{Framework: claim.Framework, Task: claim.Task}] = started
	at, _ := slices.BinarySearchFunc(r.ends, started, func(a, b *run) int { return cmp.Or(a.ends.Compare(b.ends), -1) })
	r.ends = slices.Insert(r.ends, at, started)
}
