package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
)

// leaveAfter is how long an interrupted run waits without a master, or without the agents of all that is left, before
// it ends by itself. There is nothing more that it could do: the tasks are killed by the kill or after the failover
// time.
const leaveAfter = 30 * time.Second

// Pending is the error of an interrupted run that ended before its tasks did.
type Pending struct{ Why string }

func (p *Pending) Error() string { return p.Why }

// leaving is the state of an interrupted run.
type leaving struct {
	since time.Time // when it was interrupted, or when waiting last made sense
	said  said
}

// leave tells what an interrupted run waits for, and ends the run when waiting is of no use.
func (r *runner) leave() error {
	now := time.Now()
	waits, away := r.job.left()
	if waits+away == 0 {
		return nil
	}
	trouble := r.trouble()
	switch {
	case trouble == nil && waits > 0:
		r.leaving.since = now
		r.say(&r.leaving.said, fmt.Sprintf("waiting for %s to end; Ctrl-C leaves at once", words.Count(waits+away, "task")))
	case now.Sub(r.leaving.since) < leaveAfter && trouble != nil:
		r.say(&r.leaving.said, fmt.Sprintf("waiting for a master, to end %s: %v; Ctrl-C leaves at once", words.Count(waits+away, "task"), trouble))
	case now.Sub(r.leaving.since) < leaveAfter:
		r.say(&r.leaving.said, fmt.Sprintf("waiting for the agent of %s; Ctrl-C leaves at once", words.Count(away, "task")))
	case trouble != nil:
		return &Pending{fmt.Sprintf("%s may still run, as no master could be told for %v: %v; once a master leads again it ends them after %v",
			words.Count(waits+away, "task"), leaveAfter, trouble, OutlivesRun)}
	default:
		return &Pending{fmt.Sprintf("%s may still run on an agent that is silent; it ends them as soon as it is back", words.Count(away, "task"))}
	}
	return nil
}

// trouble returns why no master leads now, or nil if one does. It may take as long as the operator client's patience.
func (r *runner) trouble() error {
	// A follower would answer GetCluster.
	_, err := r.config.Operator.ListMasters(r.job.own, &apiv1.ListRequest{})
	if away := (*client.Unreachable)(nil); errors.As(err, &away) {
		return away
	}
	return err
}

// left returns how many launched tasks have not ended, and how many have silent agents.
func (j *job) left() (waits, away int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.live { // order: irrelevant because it counts
		switch {
		case a.unwanted():
		case a.State == api.TaskUnreachable:
			away++
		default:
			waits++
		}
	}
	return waits, away
}
