package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/work"
)

// A gang is a sub-job whose indexes begin together, with one record in the store. When one member ends without being
// done, the others are ended (Regroup). When all have ended, the whole gang waits to begin anew, including members that
// were done.

// gang is what a gang remembers of the times it was begun.
type gang struct {
	Failures int       `json:"failures,omitempty"` // members that have failed, over all beginnings
	Row      int       `json:"row,omitempty"`      // beginnings in a row that ended badly
	Regroup  bool      `json:"regroup,omitempty"`  // the gang is being ended, to begin anew
	Pause    time.Time `json:"pause,omitzero"`     // the gang does not begin before this time
}

// freshGang returns how many members wait: all or none.
func (s *subJob) freshGang() int {
	if s.Held || s.Next > 0 || s.Slots > 0 {
		return 0
	}
	return s.Tasks
}

// assignGang gives all members to agents. That is in the store before any member is dispatched.
func (m *JobMaster) assignGang(e AssignedGang) {
	s := m.subJobNamed(e.SubJob)
	if s == nil || m.Phase != jobs.Running || !s.Together || s.countFresh() != len(e.Members) || e.Version != m.Version {
		return
	}
	var dispatches []Effect
	for index, member := range e.Members {
		one := s.beginSlot(index, e.Version)
		one.Tries = m.Gang.Row + 1
		dispatches = append(dispatches, m.launchAttempt(s, one, s.partOf(index).Attempts+1, member))
	}
	m.emit(dispatches...)
}

// GangTasks returns the tasks of a gang that was just assigned, by index. Each task is told of all members.
func (m *JobMaster) GangTasks(subJob string) (tasks []api.Task) {
	s := m.subJobNamed(subJob)
	if s == nil {
		return nil
	}
	list := s.listMembers()
	for _, one := range s.allSlots() {
		task := m.apiTask(s, one.Version, one.Index, one.live().Number, one.live().Try)
		task.Command.Env["TENDER_JOB_MEMBERS"] = list
		tasks = append(tasks, withMembersFile(task))
	}
	return tasks
}

// listMembers lists a gang, with a line for each member: its index, its host and its ports, as in "0 node-7 http=31000".
func (s *subJob) listMembers() string {
	var lines []string
	for _, one := range s.allSlots() {
		words := []string{strconv.Itoa(one.Index), one.live().Hostname}
		for _, name := range slices.Sorted(maps.Keys(one.live().Ports)) {
			words = append(words, fmt.Sprintf("%s=%d", name, one.live().Ports[name]))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// WriteMembers is the shell line with which each member begins.
const WriteMembers = `printf '%s\n' "$TENDER_JOB_MEMBERS" > ` + jobs.MembersFile

// withMembersFile makes a member write the list of all members before it begins.
func withMembersFile(task api.Task) api.Task {
	if len(task.Command.Argv) > 0 {
		task.Command.Argv = append([]string{"/bin/sh", "-c", WriteMembers + ` && exec "$@"`, "sh"}, task.Command.Argv...)
	} else {
		task.Command.Shell = WriteMembers + "\n" + task.Command.Shell
	}
	return task
}

// memberOver handles the end of a member that is not done.
func (m *JobMaster) memberOver(s *subJob, one *slot, live *attempt, said work.Verdict, why string) {
	s.dropSlot(one)
	m.savePart(s, one.Index)
	if m.Gang.Regroup || live.Kill == work.Unwanted || m.Phase != jobs.Running || said == work.Lost {
		return
	}
	m.Gang.Failures++
	m.addNote("%s: %s", live.Task, why)
	if said == work.Refused || m.Job.Gang.OnFailure == jobs.FailGang || m.Gang.Failures >= s.Task.Attempts {
		m.failJob(fmt.Sprintf("%s: %s", live.Task, why))
	}
}

// regroupGang ends what is left of a gang that is no longer complete. When nothing is left, the gang waits to begin anew.
func (m *JobMaster) regroupGang(s *subJob) {
	g := &m.Gang
	if s.Next > 0 && s.Slots+s.Done < s.Tasks && !g.Regroup {
		g.Regroup = true
		g.Row++
		m.tellEvent("gang lost", "a member of %d is missing; the others end, and all begin anew", s.Tasks)
	}
	if !g.Regroup {
		return
	}
	m.endTasksOf(s)
	if s.Slots > 0 {
		return
	}
	for number, p := range s.Parts { // order: irrelevant because each is by itself
		p.Done, p.Failed = bits{}, bits{}
		m.savePart(s, number*partSlots)
	}
	s.Done, s.Failed, s.Next = 0, 0, 0
	g.Regroup = false
	if pause := backoffOf(s.Task).After(g.Row, true, api.TaskID(fmt.Sprint(m.Job.Name, m.Run, g.Row))); pause > 0 { // the first time costs none
		g.Pause = m.now.Add(pause)
		s.Held = true
		m.Alarms.set(alarm{At: g.Pause, Kind: gangPause, SubJob: s.Name})
	}
	m.saveHeader()
}

// resumeGang lets the next step look at a gang that was just loaded.
func (a *alarmClock) resumeGang(subs []*subJob, pause, now time.Time) {
	for _, s := range subs {
		if s.Together {
			a.set(alarm{At: now, Kind: gangPause, SubJob: s.Name})
			if s.Held = pause.After(now); s.Held {
				a.set(alarm{At: pause, Kind: gangPause, SubJob: s.Name})
			}
		}
	}
}
