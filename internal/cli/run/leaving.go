package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
)

// leaveAfter without a master, or without the agents of all that is left, an interrupted run ends by itself. By then
// it has nothing more to do: the kill stands, or the failover time brings it.
const leaveAfter = 30 * time.Second

// Pending is why an interrupted run ended before its tasks did.
type Pending struct{ Why string }

func (p *Pending) Error() string { return p.Why }

// leaving is what an interrupted run has found out.
type leaving struct {
	since time.Time // of the interrupt, or the last time that waiting made sense
	said  said
}

// leave says what an interrupted run waits for, and ends it when waiting brings nothing.
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
		r.say(&r.leaving.said, fmt.Sprintf("waiting for %s to end; Ctrl-C leaves at once", count(waits+away, "task")))
	case now.Sub(r.leaving.since) < leaveAfter && trouble != nil:
		r.say(&r.leaving.said, fmt.Sprintf("waiting for a master, to end %s: %v; Ctrl-C leaves at once", count(waits+away, "task"), trouble))
	case now.Sub(r.leaving.since) < leaveAfter:
		r.say(&r.leaving.said, fmt.Sprintf("waiting for the agent of %s; Ctrl-C leaves at once", count(away, "task")))
	case trouble != nil:
		return &Pending{fmt.Sprintf("%s may still run, as no master could be told for %v: %v; once a master leads again it ends them after %v",
			count(waits+away, "task"), leaveAfter, trouble, failoverTimeout)}
	default:
		return &Pending{fmt.Sprintf("%s may still run on an agent that is silent; it ends them as soon as it is back", count(away, "task"))}
	}
	return nil
}

// trouble is why no master leads just now, nil when one does. It may take as long as the operator's patience.
func (r *runner) trouble() error {
	// A follower answers GetCluster.
	_, err := r.config.Operator.ListMasters(r.job.own, &apiv1.ListRequest{})
	if away := (*client.Unreachable)(nil); errors.As(err, &away) {
		return away
	}
	return err
}

// left counts the launched tasks whose end is awaited, and those whose agent is silent.
func (j *job) left() (waits, away int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.live { // order: irrelevant because it counts
		switch {
		case a.unwanted:
		case a.state == api.TaskUnreachable:
			away++
		default:
			waits++
		}
	}
	return waits, away
}
