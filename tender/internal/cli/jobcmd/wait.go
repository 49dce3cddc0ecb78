package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/pause"
)

// takeoverMax is how long a command waits for a job manager to take over from one that is gone.
const takeoverMax = 20 * time.Second

// wait is the wait of a command for a job manager, or a leader, to take over from one that is gone.
type wait struct {
	stderr io.Writer
	since  time.Time // when the wait began, or somebody answered last
	heard  bool      // a master has answered, so there is a cluster
	said   bool
}

func newWait(stderr io.Writer) *wait { return &wait{stderr: stderr, since: time.Now()} }

// answered ends the wait; the next one has the full time.
func (w *wait) answered() { w.since, w.heard, w.said = time.Now(), true, false }

// goesOn pauses, and says whether to ask again after the error. If no master has ever answered, nobody will take over.
func (w *wait) goesOn(ctx context.Context, err error) bool {
	const every = 250 * time.Millisecond
	away := (*client.Unreachable)(nil)
	switch {
	case ctx.Err() != nil:
		return false
	case api.RetryAfter(err) > 0:
		w.heard = true
		w.say("trying again for up to %v: %v", takeoverMax, err)
	case !errors.As(err, &away):
		w.heard = true
		w.say("waiting for a job manager to take over, for up to %v", takeoverMax)
	case away.Leaderless || w.heard:
		w.heard = true
		w.say("waiting for a master, for up to %v: %v", takeoverMax, away)
	default:
		return false
	}
	return time.Since(w.since) < takeoverMax && pause.For(ctx, every)
}

// say tells a person once why nothing happens.
func (w *wait) say(format string, args ...any) {
	if !w.said {
		fmt.Fprintf(w.stderr, "tender: "+format+"\n", args...)
	}
	w.said = true
}
