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
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
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

// openOffice adds the managers, one of which may stand by, and the people.
func (w *World) openOffice(name string) {
	r := w.random
	o := newOffice(w, name)
	managers := []string{name}
	if r.IntN(2) == 0 {
		managers = append(managers, name+"b")
	}
	for i, each := range managers {
		s := w.addScheduler(name, o.work)
		s.name, s.user, s.info.Standby, o.role = each, o, true, s.info.Roles[0]
		w.planIn(time.Duration(i)*w.drawBetween(0, 2*time.Second)+w.drawBetween(0, time.Second), s.startProcess)
		if r.IntN(3) == 0 {
			o.jumpClock(s)
		}
	}
	for range 1 + r.IntN(3) {
		w.planIn(w.drawBetween(0, 5*time.Second), o.submitJob)
	}
}

// jumpClock sets the wall clock of a manager's machine again and again, until the calm begins.
func (o *office) jumpClock(s *scheduler) {
	o.world.planIn(o.world.drawBetween(0, 30*time.Second), func() {
		if !o.world.kind {
			o.set = true
			o.world.setWallClock(&s.clock)
			o.jumpClock(s)
		}
	})
}

// countEvent notes an event of a job manager for the coverage.
func (o *office) countEvent(event, phase, kind string) {
	o.world.coverage[Situation{"job " + event, phase, kind}]++
}

func (*office) listInterests() sdk.Interests { return sdk.InSettled }

func (o *office) hearSubscribed(s *scheduler) {
	if o.torn {
		s.tearDown()
		return
	}
	o.beginManager(s)
}

func (o *office) hearSettled(s *scheduler) {
	if p := o.managers[s]; p != nil {
		p.runWork(func(time.Time) { p.Settle() })
	}
}

func (o *office) hearOffers(s *scheduler, offers []api.Offer) {
	if p := o.managers[s]; p != nil {
		p.runWork(func(now time.Time) { p.answerOffers(p.Offers(offers, now)) })
	}
}

func (o *office) hearRescinded(s *scheduler, offers []api.OfferID) {
	if p := o.managers[s]; p != nil {
		p.runWork(func(time.Time) { p.Rescind(offers) })
	}
}

func (o *office) hearUpdate(s *scheduler, status api.Status) sdk.Outcome {
	p := o.managers[s]
	if p == nil || p.isOver() || o.world.drawChance(30) {
		return sdk.Failed
	}
	o.noteEnd(status)
	o.noteStatus(s, status)
	return p.hearStatus(status)
}

// noteStatus notes what a manager was told.
func (o *office) noteStatus(s *scheduler, status api.Status) {
	j := o.tasks[status.Task]
	o.work.ended[status.Task] = o.work.ended[status.Task] || status.State.Terminal()
	o.world.truth.checkTold(s, j, status)
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

// forgetUnknown forgets the launches that have begun nothing and that the manager does not know any more, because the one before
// it ended in between: nobody is told of them.
func (o *office) forgetUnknown(known map[api.TaskID]bool) {
	maps.DeleteFunc(o.tasks, func(id api.TaskID, j *job) bool { return !known[id] && o.world.truth.launches[j.label].alive == nil })
}

// forgetGone forgets the tasks that have ended and that the leader does not know any more, once there are no jobs: their
// agent was silent when their job was deleted, and was marked gone while no manager was there to be told.
func (o *office) forgetGone() {
	l := o.world.findLeader()
	if l == nil {
		return
	}
	known := map[api.TaskID]bool{}
	for _, shown := range view.PageOf(l.core.View(), view.TaskList, view.Query{Framework: o.findActive().s.info.ID}).Items {
		known[shown.Task.ID] = true
	}
	maps.DeleteFunc(o.tasks, func(id api.TaskID, j *job) bool {
		r := o.world.truth.launches[j.label].alive
		return !known[id] && (r == nil || !r.alive)
	})
}

func (o *office) hearRemoved(s *scheduler) {
	o.era++
	o.wanted, o.names, o.todo = map[string]*wanted{}, nil, 0
	o.work.hearRemoved(s)
}

func (*office) sayDemand(*scheduler) {} // a manager does so by itself

// findActive returns the manager that keeps the jobs; nil: there is none.
func (o *office) findActive() *manager {
	for _, s := range o.world.schedulers {
		if p := o.managers[s]; p != nil && s.phase == active && !p.isOver() {
			return p
		}
	}
	return nil
}

// askManager repeats a request until a manager has answered it for good.
func (o *office) askManager(request func(p *manager, reply func(error)), then func(error)) {
	done, era := false, o.era
	var try func()
	again := func(pause time.Duration) { o.world.planIn(pause, try) }
	try = func() {
		p := o.findActive()
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

// submitJob has somebody submit a job, and change his mind or not.
func (o *office) submitJob() {
	if o.world.kind || o.closed {
		return
	}
	o.runs++
	name, run := fmt.Sprintf("job-%d", o.runs), fmt.Sprintf("r%d", o.runs)
	job := o.drawJob(name)
	o.askManager(func(p *manager, reply func(error)) { p.submitJob(job, run, reply) }, func(err error) {
		o.world.tellStory("people", "%s %s is submitted: %v", job.Type, name, err)
		if err == nil {
			o.wanted[name] = &wanted{job: job}
			o.names = append(o.names, name)
			o.world.planIn(o.world.drawBetween(0, 20*time.Second), func() { o.changeMind(name) })
		}
	})
	o.world.planIn(o.world.drawBetween(2*time.Second, 20*time.Second), o.submitJob)
}

// drawJob draws a job.
func (o *office) drawJob(name string) jobs.Job {
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

// changeMind has somebody change, stop or delete a job, or leave it alone.
func (o *office) changeMind(name string) {
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
		o.askManager(func(p *manager, reply func(error)) { p.updateJob(job, reply) }, func(err error) {
			if err == nil && o.wanted[name] == asked {
				asked.job = job
			}
			o.world.planIn(o.world.drawBetween(0, 20*time.Second), func() { o.changeMind(name) })
		})
	case 1:
		asked.doomed = true
		o.askManager(func(p *manager, reply func(error)) { p.tellJob(name, jobcore.Asked{Why: "enough"}, reply) }, func(error) {})
	case 2:
		o.deleteJob(name)
	default:
	}
}

// deleteJob has somebody delete a job, which is always possible.
func (o *office) deleteJob(name string) {
	asked := o.wanted[name]
	asked.doomed, asked.deleting = true, true
	request := func(p *manager, reply func(error)) {
		p.tellJob(name, jobcore.Asked{Delete: true, Why: "enough"}, reply)
	}
	if o.world.drawChance(3) { // somebody else does so too
		o.world.planIn(o.world.drawPause(), func() { o.askManager(request, func(error) {}) })
	}
	o.askManager(request, func(err error) {
		switch kind := api.KindOf(err); {
		case kind == api.Removed: // its framework was, with all that it stored
			return
		case err != nil && kind != api.NotFound: // a repeated request may find nothing to delete
			o.world.breakStory("job %s can't be deleted (R58): %v", name, err)
		}
		asked.deleted = true
	})
}

// findUnsettled returns which job is set aside, or which service has not its count. Somebody makes room for what is set
// aside: he deletes a job that has ended or, if there is none and the store is more than half full, the one that does
// not fit. In an emptier store it has to be taken back without him.
func (o *office) findUnsettled(s *scheduler) string {
	p := o.findActive()
	if p == nil || p != o.managers[s] {
		return ""
	}
	for _, name := range p.Names() {
		if why := p.Aside(name); why != nil {
			ended := func(other string) bool {
				return p.Job(other) != nil && p.Job(other).Phase.Ended() && !o.wanted[other].doomed
			}
			if at := slices.IndexFunc(o.names, ended); at >= 0 {
				o.deleteJob(o.names[at])
			} else if asked := o.wanted[name]; asked != nil && !asked.doomed && storedBytes(o.world.quorum.state) > o.world.quorum.config.StoreBytesMax/2 {
				o.deleteJob(name)
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
		if lives := o.countLiving(name); lives+said.Waiting+said.Pausing != *m.Job.Service.Count {
			return fmt.Sprintf("service %s has %d tasks, %d of its indexes wait and %d pause, and it wants %d", name, lives, said.Waiting, said.Pausing,
				*m.Job.Service.Count)
		}
	}
	return ""
}

// countLiving returns how many tasks of a job run that nobody has asked to end.
func (o *office) countLiving(name string) (n int) {
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

// findUnrest returns what keeps the office from being closed: what is meant to end ends by itself, all else is deleted, and
// then nothing is left of any job.
func (o *office) findUnrest() string {
	o.closed = true
	p := o.findActive()
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
			o.world.breakStory("job %s was submitted, and its manager does not know it", name)
		case m == nil:
		case !m.Phase.Ended() && (asked.doomed || asked.job.Batch != nil || asked.job.Gang != nil || asked.job.Steps != nil):
			why = fmt.Sprintf("%s %s is %s: %+v", asked.job.Type, name, m.Phase, m.Status(false).SubJobs)
		default:
			if !asked.deleting {
				o.deleteJob(name)
			}
			why = fmt.Sprintf("%s %s is deleted", m.Phase, name)
		}
	}
	if why != "" {
		return why
	}
	for _, key := range slices.Sorted(maps.Keys(o.world.quorum.state.Frameworks[p.s.info.ID].Store)) {
		if strings.HasPrefix(key, keeper.Prefix) {
			return "the store still has " + key
		}
	}
	o.forgetGone()
	return ""
}
