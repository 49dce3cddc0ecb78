package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// Status returns the job as it is shown to people, with its tasks if they are wanted.
func (m *JobMaster) Status(tasks bool) jobs.Status {
	status := jobs.Status{
		Name: m.Job.Name, Type: m.Job.Type, Phase: m.Phase, Why: m.Why, Version: m.Version,
		Role: m.Job.Role, Owner: m.Versions[m.Version].Owner, Submitted: m.Submitted, Ended: m.EndedAt,
	}
	ends := m.steps.findEnds()
	for _, sub := range m.Subs {
		shown := jobs.SubJobStatus{Name: sub.Name, Tasks: sub.Tasks, Pausing: sub.Pausing, Running: sub.Running, Busy: sub.Busy, Done: sub.Done, Failed: sub.Failed}
		if shown.Waiting = sub.countFresh(); sub.EachAgent { // nobody knows how many agents there will be
			shown.Waiting, shown.Tasks = 0, sub.Slots
		}
		for _, n := range sub.Queued { // order: irrelevant because a sum is made
			shown.Waiting += n
		}
		if m.Phase != jobs.Running {
			shown.Waiting = 0
		}
		if shown.State = ends[sub.Name].String(); sub.Blocked && ends[sub.Name] == goesOn {
			shown.State = "blocked"
		}
		status.SubJobs = append(status.SubJobs, shown)
	}
	if status.Why == "" && m.rolling.Roll.Why != "" {
		status.Why = m.rolling.Roll.Why
	}
	if status.Why == "" && m.Phase == jobs.Running {
		for _, sub := range m.Subs {
			status.Why = cmp.Or(status.Why, sub.describeTrouble())
		}
	}
	if m.Job.Rolling() != nil && (m.rolling.Roll.Active || m.rolling.Roll.Stopped) && m.Phase == jobs.Running {
		changed, trying := m.Subs[0].Survey.Count(work.Changed), m.Subs[0].Survey.Count(work.Tried)
		if m.rolling.Roll.first() {
			changed, trying = 0, m.Subs[0].Running
		}
		status.Roll = &jobs.RollStatus{To: m.Version, From: m.rolling.Roll.From, Changed: changed, Trying: trying, Of: status.SubJobs[0].Tasks,
			Stopped: m.rolling.Roll.Stopped, Back: m.rolling.Roll.Back}
	}
	status.NewestRun = m.runs.Cron.Number
	if status.Next = m.runs.Cron.Next; m.Phase != jobs.Running {
		status.Next = time.Time{}
	}
	if tasks {
		status.Runs = slices.Clone(m.runs.Cron.Past)
		status.Notes = slices.Clone(m.Notes)
		for _, sub := range m.Subs {
			status.Tasks = append(status.Tasks, sub.listAssignments()...)
		}
	}
	return status
}

// describeTrouble says what keeps the first task of the sub-job that does not run well from doing so, as far as it is known: the
// check that fails, or how the latest attempt has ended. "": nothing is known to be wrong.
func (sub *subJob) describeTrouble() string {
	if sub.Running == sub.Slots && len(sub.Task.Checks) == 0 { // the usual case, in which the slots need not be looked at
		return ""
	}
	first, why := 0, ""
	for _, p := range sub.Parts { // order: irrelevant because the lowest index is taken
		for _, s := range p.Slots { // order: irrelevant because the lowest index is taken
			if why != "" && s.Index > first {
				continue
			}
			switch {
			case s.up():
			case s.busy() && s.live().Said != "":
				first, why = s.Index, fmt.Sprintf("%s: %s", s.live().Task, s.live().Said)
			case s.Last != "":
				first, why = s.Index, s.Last
			}
		}
	}
	return why
}

// describeShortage says how many tasks of the sub-job wait for an agent. "": none does.
func (sub *subJob) describeShortage() string {
	waiting := 0
	for _, n := range sub.Queued { // order: irrelevant because a sum is made
		waiting += n
	}
	switch {
	case waiting > 0:
		return fmt.Sprintf("%d of %d wait for room", waiting, sub.Slots)
	case sub.EachAgent && sub.Slots == 0:
		return "no agent has been offered for it"
	}
	return ""
}

// listAssignments returns the tasks and their agents.
func (sub *subJob) listAssignments() (list []jobs.Assignment) {
	for _, s := range sub.allSlots() {
		for _, a := range s.tasks() {
			list = append(list, jobs.Assignment{SubJob: sub.Name, Index: s.Index, Attempt: a.Try, Version: a.Version, Task: a.Task, Agent: a.Agent,
				Hostname: a.Hostname, State: a.State, Since: a.Since, Ports: maps.Clone(a.Ports), Failures: s.Failures, Copy: a.IsCopy() && a != s.live(), Why: a.Said})
		}
	}
	return list
}

// History returns the job's versions, the newest first.
func (m *JobMaster) History() (versions []jobs.Version) {
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(m.Versions))) {
		versions = append(versions, m.Versions[number])
	}
	return versions
}

// Next returns the number of the next version.
func (m *JobMaster) Next() int {
	latest := 0
	for number := range m.Versions { // order: irrelevant because the largest is taken
		latest = max(latest, number)
	}
	return latest + 1
}

func (b bits) String() string { return fmt.Sprintf("%x", [4]uint64(b)) }
