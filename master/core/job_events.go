package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/change"
)

const (
	// jobEventsAtOnceMax and jobEventsPerSecond bound what a session tells of its jobs. What is beyond is refused (Limit),
	// so that no framework can keep the leader and its history busy.
	jobEventsAtOnceMax = 1000
	jobEventsPerSecond = 10
)

// eventAllowance is how many events of its jobs a session may still tell.
type eventAllowance struct {
	spent int       // of jobEventsAtOnceMax, at the time at
	at    time.Time // when spent was counted
}

// spend uses up one; it returns false if there is none.
func (a *eventAllowance) spend(now time.Time) bool {
	const each = time.Second / jobEventsPerSecond
	if back := int(now.Sub(a.at) / each); back > 0 {
		if a.spent = max(0, a.spent-back); a.spent == 0 {
			a.at = now
		} else {
			a.at = a.at.Add(time.Duration(back) * each)
		}
	}
	if a.spent >= jobEventsAtOnceMax {
		return false
	}
	a.spent++
	return true
}

// jobEvent notes what a framework tells of one of its jobs. (Protocol rule R84.)
func (r *sessions) jobEvent(s *session, number uint64, event api.JobEvent) {
	const op = "framework.event"
	fw := s.framework
	switch {
	case !slices.Contains(fw.info.Roles, event.Role):
		r.refuse(s, number, api.E(op, api.Invalid, event.Job, fmt.Errorf("the framework is not in the role %q of the job", event.Role)))
	case !s.jobEvents.spend(r.now):
		r.refuse(s, number, api.E(op, api.Limit, event.Job, fmt.Errorf("more than %d events of jobs a second", jobEventsPerSecond)))
	default:
		r.note(change.Record{
			Kind: change.Job, What: change.What(event.What), Framework: fw.id, Role: event.Role, Owner: event.Owner, Job: event.Job,
			Why: event.Why, Routine: event.Routine,
		})
	}
}
