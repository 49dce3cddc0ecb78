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
	ends := m.endsOfSubJobs()
	for _, s := range m.Subs {
		one := jobs.SubJobStatus{Name: s.Name, Tasks: s.Tasks, Pausing: s.Pausing, Running: s.Running, Busy: s.Busy, Done: s.Done, Failed: s.Failed}
		if one.Waiting = s.countFresh(); s.EachAgent { // nobody knows how many agents there will be
			one.Waiting, one.Tasks = 0, s.Slots
		}
		for _, n := range s.Queued { // order: irrelevant because a sum is made
			one.Waiting += n
		}
		if m.Phase != jobs.Running {
			one.Waiting = 0
		}
		if one.State = ends[s.Name].String(); s.Blocked && ends[s.Name] == goesOn {
			one.State = "blocked"
		}
		status.SubJobs = append(status.SubJobs, one)
	}
	if status.Why == "" && m.Roll.Why != "" {
		status.Why = m.Roll.Why
	}
	if status.Why == "" && m.Phase == jobs.Running {
		for _, s := range m.Subs {
			status.Why = cmp.Or(status.Why, s.trouble())
		}
	}
	if m.Job.Rolling() != nil && (m.Roll.Active || m.Roll.Stopped) && m.Phase == jobs.Running {
		changed, trying := m.Subs[0].Survey.Count(work.Changed), m.Subs[0].Survey.Count(work.Tried)
		if m.Roll.first() {
			changed, trying = 0, m.Subs[0].Running
		}
		status.Roll = &jobs.RollStatus{To: m.Version, From: m.Roll.From, Changed: changed, Trying: trying, Of: status.SubJobs[0].Tasks,
			Stopped: m.Roll.Stopped, Back: m.Roll.Back}
	}
	status.NewestRun = m.Cron.Number
	if status.Next = m.Cron.Next; m.Phase != jobs.Running {
		status.Next = time.Time{}
	}
	if tasks {
		status.Runs = slices.Clone(m.Cron.Past)
		status.Notes = slices.Clone(m.Notes)
		for _, s := range m.Subs {
			status.Tasks = append(status.Tasks, s.assignments()...)
		}
	}
	return status
}

// trouble says what keeps the first task of the sub-job that does not run well from doing so, as far as it is known: the
// check that fails, or how the latest attempt has ended. "": nothing is known to be wrong.
func (s *subJob) trouble() string {
	if s.Running == s.Slots && len(s.Task.Checks) == 0 { // the usual case, in which the slots need not be looked at
		return ""
	}
	first, why := 0, ""
	for _, p := range s.Parts { // order: irrelevant because the lowest index is taken
		for _, one := range p.Slots { // order: irrelevant because the lowest index is taken
			if why != "" && one.Index > first {
				continue
			}
			switch {
			case one.up():
			case one.busy() && one.live().Said != "":
				first, why = one.Index, fmt.Sprintf("%s: %s", one.live().Task, one.live().Said)
			case one.Last != "":
				first, why = one.Index, one.Last
			}
		}
	}
	return why
}

// shortage says how many tasks of the sub-job wait for an agent. "": none does.
func (s *subJob) shortage() string {
	waiting := 0
	for _, n := range s.Queued { // order: irrelevant because a sum is made
		waiting += n
	}
	switch {
	case waiting > 0:
		return fmt.Sprintf("%d of %d wait for room", waiting, s.Slots)
	case s.EachAgent && s.Slots == 0:
		return "no agent has been offered for it"
	}
	return ""
}

// assignments returns the tasks and their agents.
func (s *subJob) assignments() (list []jobs.Assignment) {
	for _, one := range s.allSlots() {
		for _, a := range one.tasks() {
			list = append(list, jobs.Assignment{SubJob: s.Name, Index: one.Index, Attempt: a.Try, Version: a.Version, Task: a.Task, Agent: a.Agent,
				Hostname: a.Hostname, State: a.State, Since: a.Since, Ports: maps.Clone(a.Ports), Failures: one.Failures, Copy: a.IsCopy() && a != one.live(), Why: a.Said})
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
