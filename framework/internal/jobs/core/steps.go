package core

import (
	"fmt"

	"github.com/tenderhq/tender/framework/jobs"
)

// steps says which sub-jobs may begin, and how far each has come. Nothing of that is stored, so nothing of it can be
// stale.
type steps struct {
	*base
	endings *endings
}

// concludeSteps lets each sub-job begin when those before it have ended as it needs. The job ends with the last
// sub-job, and has failed if one of them has: it returns how and why. "": the job goes on.
func (r *steps) concludeSteps() (ended jobs.Phase, why string) {
	if only := r.Subs[0]; len(r.Subs) == 1 && only.Failed <= only.Failures && only.ownEnd() == goesOn { // the usual case
		return "", ""
	}
	ends, open := r.findEnds(), false
	for _, sub := range r.Subs {
		state := ends[sub.Name]
		if state == goesOn && sub.Failed > sub.Failures {
			r.endings.endTasksOf(sub)
			if state = sub.ownEnd(); state == endedBadly {
				return r.concludeSteps() // for the sub-jobs that come after this one
			}
		}
		open = open || state == goesOn
		if state == endedBadly && why == "" {
			why = fmt.Sprintf("%s has failed: %d of %d indexes were given up, %d may be", sub.Name, sub.Failed, sub.Tasks, sub.Failures)
		}
	}
	switch {
	case open:
		return "", ""
	case why != "":
		return jobs.Failed, why
	}
	return jobs.Succeeded, ""
}

// findEnds returns how far each sub-job is, and which may begin. In the list sub-jobs stand behind those that they come
// after.
func (r *steps) findEnds() map[string]end {
	ends := make(map[string]end, len(r.Subs))
	for _, sub := range r.Subs {
		var pending, failed, missing bool
		for _, name := range sub.After {
			pending = pending || ends[name] == goesOn
			failed = failed || ends[name] == endedBadly
			missing = missing || ends[name] == skipped
		}
		begins := sub.When == jobs.OnSuccess && !failed && !missing || sub.When == jobs.OnFailure && failed || sub.When == jobs.Always || len(sub.After) == 0
		sub.Blocked = pending || !begins
		ends[sub.Name] = sub.ownEnd()
		if sub.Blocked && !pending && ends[sub.Name] == goesOn {
			ends[sub.Name] = skipped
		}
	}
	return ends
}

// end says how far a sub-job has come that can end.
type end uint8

func (e end) String() string {
	return [...]string{goesOn: "running", endedWell: success, endedBadly: "failure", skipped: "skipped"}[e]
}

// success is the state, as people see it, of a sub-job or a run that has ended well.
const success = "success"
