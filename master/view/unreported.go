package view

import (
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/words"
)

// A leader is told by agents which tasks and executors they have. Until all have reported, what it does not know may be
// there all the same, and it says so. (Protocol rule R75.)

// Unreported says which agents have not reported to this leader, so that they may have what nobody else knows.
type Unreported struct {
	Awaited int       // may report at any moment
	Silent  int       // were taken for dead before they had
	Lost    bool      // one is not back that the registry does not know since it was restored or recovered
	Since   time.Time // when this leader began
}

// notYetRetry is after which time it is worth to ask again for what agents have not reported yet.
const notYetRetry = time.Second

// NotYet returns what whoever misses something is answered while agents, or the one that is named, may still report it:
// that it is not known yet (Unavailable). nil: they all have reported, or are taken for dead.
func (c Cluster) NotYet(op, subject string, on api.AgentID) *api.Error {
	if c.Leader == nil {
		return nil
	}
	told := c.Leader.Unreported(on)
	if told.Awaited == 0 {
		return nil
	}
	have := "have"
	if told.Awaited == 1 {
		have = "has"
	}
	return api.E(op, api.Unavailable, subject, fmt.Errorf("not yet known: %s %s not reported to this leader, elected at %s; try again",
		words.Count(told.Awaited, "agent"), have, told.Since.UTC().Format("15:04:05 MST"))).RetryIn(notYetRetry)
}

// Absent returns what whoever looks for something is answered that this leader does not know, and that only agents, or
// the one that is named, could have: that of [Cluster.NotYet], else that it is not there (NotFound), and why.
func (c Cluster) Absent(op, subject string, on api.AgentID, why error) *api.Error {
	if err := c.NotYet(op, subject, on); err != nil {
		return err
	}
	if told := c.Leader.Unreported(on); told.Silent > 0 {
		why = fmt.Errorf("%w; %s, taken for dead before reporting to this leader, may have it", why, words.Count(told.Silent, "agent"))
	} else if told.Lost {
		why = fmt.Errorf("%w; an agent that is not back since the registry was restored or recovered may have it", why)
	}
	return api.E(op, api.NotFound, subject, why)
}
