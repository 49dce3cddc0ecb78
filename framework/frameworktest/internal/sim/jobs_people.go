package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	sdk "github.com/tenderhq/tender/framework/internal/core"
	jobcore "github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/internal/jobs/writes"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/master/view"
)

// office is what people want of job managers, of which one at most is active, and what has become of it. Nothing of the
// managers is here: they have their store.
type office struct {
	*work
	role     api.Role
	managers map[*scheduler]*manager
	era      int // number of frameworks before this one that were removed with all jobs
	runs     int
	wanted   map[string]*wanted // by name
	names    []string           // of wanted, in the order in which they were submitted
	closed   bool               // people ask for nothing more

	indexes map[string][]string // labels of launches, by job, run, sub-job and index
	missed  map[string]bool     // launches of which a manager was told that they are lost, or may be
	faults  map[string]int      // how often an index may be said to have failed, by launch
	dues    map[string]string   // the run that has begun for a due time
	set     bool                // somebody has set a manager's clock
}

// wanted is a job that was submitted.
type wanted struct {
	job               jobs.Job
	doomed            bool // somebody has asked for its end
	deleting, deleted bool // its deletion was asked for, and answered
}

// newOffice makes the people of a framework of job managers.
func newOffice(w *World, name string) *office {
	o := &office{work: newWork(w, name, 0), managers: map[*scheduler]*manager{}, wanted: map[string]*wanted{}, indexes: map[string][]string{},
		missed: map[string]bool{}, faults: map[string]int{}, dues: map[string]string{}}
	o.stated = true
	return o
}

// hasJobs says by its own draw whether there are job managers, so that all other seeds tell their stories as before.
func hasJobs(seed uint64) bool { return rand.New(rand.NewPCG(seed, 3)).IntN(3) == 0 }

// keepStores makes the masters keep what job managers store; some have little room for it.
func (q *quorum) keepStores() {
	q.keepsStores, q.config.StoreBytesMax = true, 0
	if q.world.random.IntN(2) == 0 {
		q.config.StoreBytesMax = 4000 + q.world.random.Int64N(8000)
	}
}

// open adds the managers, one of which may stand by, and the people.
func (w *World) open(name string) {
	r := w.random
	o := newOffice(w, name)
	managers := []string{name}
	if r.IntN(2) == 0 {
		managers = append(managers, name+"b")
	}
	for i, each := range managers {
		s := w.addScheduler(name, o.work)
		s.name, s.user, s.info.Standby, o.role = each, o, true, s.info.Roles[0]
		w.in(time.Duration(i)*w.between(0, 2*time.Second)+w.between(0, time.Second), s.start)
		if r.IntN(3) == 0 {
			o.jump(s)
		}
	}
	for range 1 + r.IntN(3) {
		w.in(w.between(0, 5*time.Second), o.visit)
	}
}

// jump sets the wall clock of a manager's machine again and again, until the calm begins.
func (o *office) jump(s *scheduler) {
	o.world.in(o.world.between(0, 30*time.Second), func() {
		if !o.world.kind {
			o.set = true
			o.world.set(&s.clock)
			o.jump(s)
		}
	})
}

// count notes an event of a job manager for the coverage.
func (o *office) count(event, phase, kind string) {
	o.world.coverage[Situation{"job " + event, phase, kind}]++
}

func (*office) interests() sdk.Interests { return sdk.InSettled }

func (o *office) subscribed(s *scheduler) {
	if o.torn {
		s.tearDown()
		return
	}
	o.begins(s)
}

func (o *office) settled(s *scheduler) {
	if p := o.managers[s]; p != nil {
		p.do(func(time.Time) { p.Settle() })
	}
}

func (o *office) offered(s *scheduler, offers []api.Offer) {
	if p := o.managers[s]; p != nil {
		p.do(func(now time.Time) { p.answer(p.Offers(offers, now)) })
	}
}

func (o *office) rescinded(s *scheduler, offers []api.OfferID) {
	if p := o.managers[s]; p != nil {
		p.do(func(time.Time) { p.Rescind(offers) })
	}
}

func (o *office) updated(s *scheduler, status api.Status) sdk.Outcome {
	p := o.managers[s]
	if p == nil || p.over() || o.world.chance(30) {
		return sdk.Failed
	}
	o.hears(status)
	o.note(s, status)
	return p.hear(status)
}

// note notes what a manager was told.
func (o *office) note(s *scheduler, status api.Status) {
	j := o.tasks[status.Task]
	o.work.ended[status.Task] = o.work.ended[status.Task] || status.State.Terminal()
	o.world.truth.told(s, j, status)
	label := string(status.Task)
	switch status.State {
	case api.TaskUnreachable, api.TaskUnknown, api.TaskGone, api.TaskGoneByOperator, api.TaskDropped:
		o.missed[label] = true
	case api.TaskError:
		o.faults[label] = 1000 // it can't run at all
	case api.TaskFailed:
		if status.Reason.Blame() == api.BlameTask {
			o.faults[label] = 1
		}
	default:
	}
	if j == nil {
		return
	}
	if j.state = status.State; status.State.Settled() {
		delete(o.tasks, status.Task)
	}
}

// forget forgets the launches that have begun nothing and that the manager does not know any more, because the one before
// it ended in between: nobody is told of them.
func (o *office) forget(known map[api.TaskID]bool) {
	maps.DeleteFunc(o.tasks, func(id api.TaskID, j *job) bool { return !known[id] && o.world.truth.launches[j.label].alive == nil })
}

// forgetGone forgets the tasks that have ended and that the leader does not know any more, once there are no jobs: their
// agent was silent when their job was deleted, and was marked gone while no manager was there to be told.
func (o *office) forgetGone() {
	l := o.world.leader()
	if l == nil {
		return
	}
	known := map[api.TaskID]bool{}
	for _, shown := range l.core.View().Tasks(view.Query{Framework: o.active().s.info.ID}).Items {
		known[shown.Task.ID] = true
	}
	maps.DeleteFunc(o.tasks, func(id api.TaskID, j *job) bool {
		r := o.world.truth.launches[j.label].alive
		return !known[id] && (r == nil || !r.alive)
	})
}

func (o *office) removed(s *scheduler) {
	o.era++
	o.wanted, o.names, o.todo = map[string]*wanted{}, nil, 0
	o.work.removed(s)
}

func (*office) sayDemand(*scheduler) {} // a manager does so by itself

// active returns the manager that keeps the jobs; nil: there is none.
func (o *office) active() *manager {
	for _, s := range o.world.schedulers {
		if p := o.managers[s]; p != nil && s.phase == active && !p.over() {
			return p
		}
	}
	return nil
}

// ask repeats a request until a manager has answered it for good.
func (o *office) ask(request func(p *manager, reply func(error)), then func(error)) {
	done, era := false, o.era
	var try func()
	again := func(pause time.Duration) { o.world.in(pause, try) }
	try = func() {
		p := o.active()
		switch {
		case done || o.era != era || o.torn:
			return
		case p == nil:
			again(500 * time.Millisecond)
			return
		}
		again(10 * time.Second)
		request(p, func(err error) {
			if !done && o.era == era && !api.Transient(err) {
				done = true
				then(err)
			}
		})
	}
	try()
}

// visit has somebody submit a job, and change his mind or not.
func (o *office) visit() {
	if o.world.kind || o.closed {
		return
	}
	o.runs++
	name, run := fmt.Sprintf("job-%d", o.runs), fmt.Sprintf("r%d", o.runs)
	job := o.draw(name)
	o.ask(func(p *manager, reply func(error)) { p.submit(job, run, reply) }, func(err error) {
		o.world.say("people", "%s %s is submitted: %v", job.Type, name, err)
		if err == nil {
			o.wanted[name] = &wanted{job: job}
			o.names = append(o.names, name)
			o.world.in(o.world.between(0, 20*time.Second), func() { o.regret(name) })
		}
	})
	o.world.in(o.world.between(2*time.Second, 20*time.Second), o.visit)
}

// draw draws a job.
func (o *office) draw(name string) jobs.Job {
	r := o.world.random
	task := jobs.Task{Command: "work", Attempts: 1 + r.IntN(4), Env: map[string]string{"FILLER": strings.Repeat("x", r.IntN(1000))}}
	task.LostAfter = jobs.Duration([]time.Duration{0, 5 * time.Second, -1}[r.IntN(3)])
	job := jobs.Job{Name: name, Role: o.role, Type: jobs.Types()[r.IntN(len(jobs.Types()))], Task: task}
	count := 1 + r.IntN(3)
	switch job.Type {
	case jobs.BatchType:
		job.Batch = &jobs.Batch{Completions: 1 + r.IntN(8), Parallelism: 1 + r.IntN(4), Failures: r.IntN(2)}
		if r.IntN(3) == 0 {
			job.Batch.Speculate = 1.1
			job.Batch.Completions += 4 // among fewer none is ever slow
		}
	case jobs.ServiceType:
		job.Service = &jobs.Service{Count: &count, Proof: jobs.Duration(3 * time.Second)}
	case jobs.CronType:
		job.Cron = &jobs.Cron{Schedule: "10s", Overlap: []jobs.Overlap{jobs.Forbid, jobs.Allow, jobs.Replace}[r.IntN(3)],
			Missed: []jobs.Missed{jobs.RunOnce, jobs.Skip}[r.IntN(2)], Completions: count}
	case jobs.GangType:
		job.Gang = &jobs.Gang{Members: 2 + r.IntN(2)}
	case jobs.DAGType:
		job.Task = jobs.Task{}
		job.Steps = []jobs.Step{{Name: "a", Completions: count, Task: task}, {Name: "b", After: []string{"a"}, Completions: 2, Task: task},
			{Name: "c", After: []string{"a"}, When: jobs.OnFailure, Task: task}}
	case jobs.SystemType:
		job.System = &jobs.System{Proof: jobs.Duration(3 * time.Second)}
	}
	return job
}

// regret has somebody change, stop or delete a job, or leave it alone.
func (o *office) regret(name string) {
	asked, r := o.wanted[name], o.world.random
	if asked == nil || asked.doomed {
		return
	}
	switch r.IntN(4) {
	case 0:
		job := asked.job
		if job.Task.Command += " more"; job.Type == jobs.DAGType || job.Type == jobs.GangType {
			return // these can't change
		}
		o.ask(func(p *manager, reply func(error)) { p.update(job, reply) }, func(err error) {
			if err == nil && o.wanted[name] == asked {
				asked.job = job
			}
			o.world.in(o.world.between(0, 20*time.Second), func() { o.regret(name) })
		})
	case 1:
		asked.doomed = true
		o.ask(func(p *manager, reply func(error)) { p.tell(name, jobcore.Asked{Why: "enough"}, reply) }, func(error) {})
	case 2:
		o.delete(name)
	default:
	}
}

// delete has somebody delete a job, which is always possible.
func (o *office) delete(name string) {
	asked := o.wanted[name]
	asked.doomed, asked.deleting = true, true
	request := func(p *manager, reply func(error)) { p.tell(name, jobcore.Asked{Delete: true, Why: "enough"}, reply) }
	if o.world.chance(3) { // somebody else does so too
		o.world.in(o.world.pause(), func() { o.ask(request, func(error) {}) })
	}
	o.ask(request, func(err error) {
		switch kind := api.KindOf(err); {
		case kind == api.Removed: // its framework was, with all that it stored
			return
		case err != nil && kind != api.NotFound: // a repeated request may find nothing to delete
			o.world.breaks("job %s can't be deleted (R58): %v", name, err)
		}
		asked.deleted = true
	})
}

// unsettled returns which job is set aside, or which service has not its count. Somebody makes room for what is set
// aside: he deletes a job that has ended or, if there is none and the store is more than half full, the one that does
// not fit. In an emptier store it has to be taken back without him.
func (o *office) unsettled(s *scheduler) string {
	p := o.active()
	if p == nil || p != o.managers[s] {
		return ""
	}
	for _, name := range p.Names() {
		if why := p.Aside(name); why != nil {
			ended := func(other string) bool {
				return p.Job(other) != nil && p.Job(other).Phase.Ended() && !o.wanted[other].doomed
			}
			if at := slices.IndexFunc(o.names, ended); at >= 0 {
				o.delete(o.names[at])
			} else if asked := o.wanted[name]; asked != nil && !asked.doomed && storedBytes(o.world.quorum.state) > o.world.quorum.config.StoreBytesMax/2 {
				o.delete(name)
			}
			return fmt.Sprintf("job %s is set aside: %v", name, why)
		}
	}
	for _, name := range o.names {
		m := p.Job(name)
		if m == nil || m.Job.Service == nil || m.Phase != jobs.Running {
			continue
		}
		said := m.Status(false).SubJobs[0]
		if lives := o.living(name); lives+said.Waiting+said.Pausing != *m.Job.Service.Count {
			return fmt.Sprintf("service %s has %d tasks, %d of its indexes wait and %d pause, and it wants %d", name, lives, said.Waiting, said.Pausing,
				*m.Job.Service.Count)
		}
	}
	return ""
}

// living returns how many tasks of a job run that nobody has asked to end.
func (o *office) living(name string) (n int) {
	for index, labels := range o.indexes { // order: irrelevant because it is a sum
		if !strings.HasPrefix(index, name+".") {
			continue
		}
		for _, label := range labels {
			if r := o.world.truth.launches[label].alive; r != nil && r.alive && !r.killed {
				n++
			}
		}
	}
	return n
}

// unrest returns what keeps the office from being closed: what is meant to end ends by itself, all else is deleted, and
// then nothing is left of any job.
func (o *office) unrest() string {
	o.closed = true
	p := o.active()
	if p == nil {
		return "no job manager is active"
	}
	for _, name := range p.Names() { // the submission was never answered, as a manager ended meanwhile
		if o.wanted[name] == nil {
			o.wanted[name] = &wanted{job: p.Job(name).Job}
			o.names = append(o.names, name)
		}
	}
	why := ""
	for _, name := range o.names {
		asked, m := o.wanted[name], p.Job(name)
		switch {
		case m == nil && !asked.doomed && !asked.deleted:
			o.world.breaks("job %s was submitted, and its manager does not know it", name)
		case m == nil:
		case !m.Phase.Ended() && (asked.doomed || asked.job.Batch != nil || asked.job.Gang != nil || asked.job.Steps != nil):
			why = fmt.Sprintf("%s %s is %s: %+v", asked.job.Type, name, m.Phase, m.Status(false).SubJobs)
		default:
			if !asked.deleting {
				o.delete(name)
			}
			why = fmt.Sprintf("%s %s is deleted", m.Phase, name)
		}
	}
	if why != "" {
		return why
	}
	for _, key := range slices.Sorted(maps.Keys(o.world.quorum.state.Frameworks[p.s.info.ID].Store)) {
		if strings.HasPrefix(key, writes.Prefix) {
			return "the store still has " + key
		}
	}
	o.forgetGone()
	return ""
}
