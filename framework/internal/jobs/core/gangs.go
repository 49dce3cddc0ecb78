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

// gangs has the members of a gang begin together, and end together when one of them is missing.
type gangs struct {
	*base
	endings *endings

	Gang gang
}

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

// listMembers lists a gang, with a line for each member: its index, its host and its ports, as in "0 node-7 http=31000".
func (sub *subJob) listMembers() string {
	var lines []string
	for _, s := range sub.allSlots() {
		words := []string{strconv.Itoa(s.Index), s.live().Hostname}
		for _, name := range slices.Sorted(maps.Keys(s.live().Ports)) {
			words = append(words, fmt.Sprintf("%s=%d", name, s.live().Ports[name]))
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

// endMember handles the end of a member that is not done.
func (r *gangs) endMember(sub *subJob, s *slot, live *attempt, said work.Verdict, why string) {
	sub.dropSlot(s)
	r.savePart(sub, s.Index)
	if r.Gang.Regroup || live.Kill == work.Unwanted || r.Phase != jobs.Running || said == work.Lost {
		return
	}
	r.Gang.Failures++
	r.addNote("%s: %s", live.Task, why)
	if said == work.Refused || r.Job.Gang.OnFailure == jobs.FailGang || r.Gang.Failures >= sub.Task.Attempts {
		r.endings.failJob(fmt.Sprintf("%s: %s", live.Task, why))
	}
}

// regroupGang ends what is left of a gang that is no longer complete. When nothing is left, the gang waits to begin anew.
func (r *gangs) regroupGang(sub *subJob) {
	g := &r.Gang
	if sub.Next > 0 && sub.Slots+sub.Done < sub.Tasks && !g.Regroup {
		g.Regroup = true
		g.Row++
		r.tellEvent("gang lost", "a member of %d is missing; the others end, and all begin anew", sub.Tasks)
	}
	if !g.Regroup {
		return
	}
	r.endings.endTasksOf(sub)
	if sub.Slots > 0 {
		return
	}
	for number, p := range sub.Parts { // order: irrelevant because each is by itself
		p.Done, p.Failed = bits{}, bits{}
		r.savePart(sub, number*partSlots)
	}
	sub.Done, sub.Failed, sub.Next = 0, 0, 0
	g.Regroup = false
	if pause := backoffOf(sub.Task).After(g.Row, true, api.TaskID(fmt.Sprint(r.Job.Name, r.Run, g.Row))); pause > 0 { // the first time costs none
		g.Pause = r.now.Add(pause)
		sub.Held = true
		r.Alarms.set(alarm{At: g.Pause, Kind: gangPause, SubJob: sub.Name})
	}
	r.saveHeader()
}

// resumeGang lets the next step look at a gang that was just loaded.
func (a *alarmClock) resumeGang(subs []*subJob, pause, now time.Time) {
	for _, sub := range subs {
		if sub.Together {
			a.set(alarm{At: now, Kind: gangPause, SubJob: sub.Name})
			if sub.Held = pause.After(now); sub.Held {
				a.set(alarm{At: pause, Kind: gangPause, SubJob: sub.Name})
			}
		}
	}
}

// ringGang lets a gang begin whose pause is over.
func (r *gangs) ringGang(sub *subJob) { sub.Held = r.Gang.Pause.After(r.now) }
