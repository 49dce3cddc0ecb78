package sim

import (
	"fmt"
	"maps"
	"strings"

	"github.com/tenderhq/tender/api"
	jobcore "github.com/tenderhq/tender/framework/internal/jobs/core"
	"github.com/tenderhq/tender/framework/jobs"
)

// The auditor of jobs knows what people have asked for, which tasks were launched, what has become of them, and what
// managers were told. From that it says whether the promises of jobs hold: no index is lost, none is done twice, only
// faults of the user use up attempts.

// indexOf returns the job and the index that a task is of: its ID without the number of the attempt.
func indexOf(task api.TaskID) (job, index string) {
	index = string(task)
	return jobcore.JobOf(task), index[:strings.LastIndex(index, ".")]
}

// checkLaunch notes that a manager launches a task, and checks that its index has no other.
func (o *office) checkLaunch(p *manager, task *api.Task) {
	t, label := o.world.truth, string(task.ID)
	name, index := indexOf(task.ID)
	task.Labels = maps.Clone(task.Labels) // each has some
	task.Labels[labelOfTry] = label
	if t.launches[label] != nil {
		o.world.breakStory("task %s is launched twice: its ID was used before", task.ID)
		return
	}
	o.tasks[task.ID] = &job{id: task.ID, label: label, framework: p.s.info.ID, state: api.TaskStaging}
	t.noteLaunch(p.s, *task, label)
	m := p.Job(name)
	if m != nil {
		o.checkIndex(m.Job, index)
		o.checkDue(m.Job, task)
	}
	o.indexes[index] = append(o.indexes[index], label)
}

// checkIndex checks that no other task of the index runs that is wanted, and that none has done it. Whose agent was taken
// for dead may still do either.
func (o *office) checkIndex(of jobs.Job, index string) {
	if of.Batch != nil && of.Batch.Speculate > 0 {
		return // its copies may
	}
	for _, label := range o.indexes[index] {
		l := o.world.truth.launches[label]
		if o.missed[label] || l.abandoned || l.alive == nil {
			continue
		}
		if l.alive.alive && !l.alive.killed {
			o.world.breakStory("index %s is launched again, and %s runs", index, label)
		}
		if l.end.State == api.TaskFinished && (of.Batch != nil || of.Cron != nil || of.Steps != nil) {
			o.world.breakStory("index %s is launched again, and %s has done it", index, label)
		}
	}
}

// checkDue checks that two runs of a cron job do not begin for one time, while nobody sets a clock (R56).
func (o *office) checkDue(of jobs.Job, task *api.Task) {
	due, is := task.Command.Env["TENDER_JOB_DUE"]
	if !is || o.set {
		return
	}
	run := task.Command.Env["TENDER_JOB_SUBJOB"]
	key := of.Name + " at " + due
	if before, known := o.dues[key]; known && before != run {
		o.world.breakStory("cron job %s begins both %s and %s (R56)", key, before, run)
	}
	o.dues[key] = run
}

// checkEnded checks what a manager takes for the end of a job that ends by itself: as many indexes are done and given up as
// tasks have done and used up.
func (o *office) checkEnded(m *jobcore.JobMaster) {
	name := m.Job.Name
	if m.Job.Batch == nil || m.Phase != jobs.Succeeded && m.Phase != jobs.Failed {
		return
	}
	said := m.Status(false).SubJobs[0]
	done, spent := 0, 0
	for index := range m.Job.Batch.Completions {
		finished, faults := false, 0
		for _, label := range o.indexes[fmt.Sprintf("%s.%s.%s.%d", name, m.Run, said.Name, index)] {
			finished = finished || o.world.truth.launches[label].end.State == api.TaskFinished
			faults += o.faults[label]
		}
		if finished {
			done++
		}
		if faults >= m.Job.Task.Attempts {
			spent++
		}
	}
	switch {
	case said.Done > done || m.Phase == jobs.Succeeded && said.Done+said.Failed < m.Job.Batch.Completions:
		o.world.breakStory("job %s has %s with %d of %d indexes done, and tasks have done %d: an index is lost", name, m.Phase, said.Done,
			m.Job.Batch.Completions, done)
	case said.Failed > spent:
		o.world.breakStory("job %s has given %d indexes up, and %d have used their %d attempts up by faults of their own (R59)", name, said.Failed,
			spent, m.Job.Task.Attempts)
	}
}
