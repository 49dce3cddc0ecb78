package registry

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
)

// Between the moment at which somebody decides on a change by looking, and the moment at which the quorum has committed
// it, other changes may be committed. So each change says what was seen, and Apply refuses it as Stale when that is no
// longer so. Whoever decided looks again. (Protocol rule R49.)

// Whatever in the place of what was seen means that the change is right whatever has happened since, because somebody
// forces it. The zero value means nothing like that: a change that does not say what was seen is refused.
const Whatever = math.MaxUint64

// sight is what the proposer of a change saw, or the reason why he need not look.
type sight interface {
	// changed returns the refusal when the state is no longer what was seen; nil while it is.
	changed(s *State) *Result
}

// blind is the sight of a change for which nothing that was seen matters: the reason why.
type blind string

func (blind) changed(*State) *Result { return nil }

// sawAgents compares the versions of agents' marks.
type sawAgents struct {
	op       string
	agents   []api.AgentID
	versions []uint64
}

func sawAgent(op string, id api.AgentID, version uint64) sawAgents {
	return sawAgents{op, []api.AgentID{id}, []uint64{version}}
}

func (saw sawAgents) changed(s *State) *Result {
	for i, id := range saw.agents {
		agent, known := s.Agents[id]
		if !known { // the change itself is refused for it
			continue
		}
		if i >= len(saw.versions) || saw.versions[i] != agent.MarksVersion && saw.versions[i] != Whatever {
			return refusal(saw.op, api.Stale, id,
				"its marks or its maintenance have changed since that was decided: it is %s by now; look at it and, if you still want it, ask again", agent.markedWords())
		}
	}
	return nil
}

// markedWords says in words which marks and which maintenance an agent has.
func (a Agent) markedWords() string {
	text := "in service"
	if a.Marks != 0 {
		text = strings.Join(a.Marks.Strings(), ", ")
		if a.Why != "" {
			text += " (" + a.Why + ")"
		}
	}
	if start := a.Maintenance.Start; !start.IsZero() && !a.Maintained {
		text += ", with maintenance planned from " + start.Format(time.RFC3339)
	}
	return text
}

// sawSession compares the session of a framework.
type sawSession struct {
	op        string
	framework api.FrameworkID
	session   uint64
}

func (saw sawSession) changed(s *State) *Result {
	_, bad := s.framework(saw.op, saw.framework, saw.session)
	return bad
}

// sawScheduler compares the session of a framework for a change that its scheduler did not ask for.
type sawScheduler struct {
	op        string
	framework api.FrameworkID
	session   uint64
}

func (saw sawScheduler) changed(s *State) *Result {
	known, is := s.Frameworks[saw.framework]
	if !is || !known.Removed.IsZero() || saw.session == Whatever || saw.session == known.Session { // the first two: the change itself is refused
		return nil
	}
	return refusal(saw.op, api.Stale, saw.framework,
		"a scheduler has subscribed since that was decided: session %d is over, session %d goes on; look at it and, if you still want it, ask again", saw.session, known.Session)
}

// sawReserved compares what an agent has reserved.
type sawReserved struct {
	agent    api.AgentID
	reserved api.Resources
}

func (saw sawReserved) changed(s *State) *Result {
	agent, known := s.Agents[saw.agent]
	if !known || agent.Reserved.Equal(saw.reserved) {
		return nil
	}
	return refusal("agent.reserve", api.Stale, saw.agent, "it has %v reserved by now", agent.Reserved)
}

// sawRole compares the settings of a role, and, for a change that was held against the quotas of other roles, how often
// any quota was changed.
type sawRole struct {
	role   api.Role
	set    Role
	quotas uint64
}

func (saw sawRole) changed(s *State) *Result {
	const op = "role.set"
	if now := s.Roles[saw.role]; !now.equal(saw.set) {
		return refusal(op, api.Stale, saw.role, "it was set anew since that was decided, to %s; look at it and, if you still want it, set it again", now.Describe())
	}
	if saw.quotas != s.Quotas && saw.quotas != Whatever {
		return refusal(op, api.Stale, saw.role, "the quota of another role has changed since that was decided; look at the roles and, if you still want it, set it again")
	}
	return nil
}

func (r Role) equal(other Role) bool {
	return r.Weight == other.Weight && r.Priority == other.Priority && r.Guarantee.Equal(other.Guarantee) && r.Limit.Equal(other.Limit)
}

// sawGrants compares what a principal was granted.
type sawGrants struct {
	principal string
	grants    []rights.Grant
}

func (saw sawGrants) changed(s *State) *Result {
	known, is := s.Principals[saw.principal]
	if !is || !known.Revoked.IsZero() || slices.Equal(known.Grants, saw.grants) { // the first two: the change itself is refused
		return nil
	}
	return refusal("principal.revoke", api.Stale, saw.principal,
		"what it was granted has changed since that was decided; look at it and, if you still want it, ask again")
}

// sawSecret compares when a secret was set.
type sawSecret struct {
	secret api.SecretID
	set    time.Time
}

func (saw sawSecret) changed(s *State) *Result {
	known, is := s.Secrets[saw.secret]
	if !is || known.Set.Equal(saw.set) {
		return nil
	}
	return refusal("secret.rm", api.Stale, saw.secret, "it was set anew since that was decided, at %s; look at it and, if you still want it, ask again",
		known.Set.Format(time.RFC3339))
}

// sawAuthority compares which authority signs; "" is the first one. A change that is repeated finds the next one.
type sawAuthority struct{ digest, next string }

func (saw sawAuthority) changed(s *State) *Result {
	if s.Authority.Digest == saw.digest || s.Authority.Digest == saw.next {
		return nil
	}
	return refusal("authority.rotate", api.Stale, s.Authority.Digest, "the authority was changed since that was decided, at %s; look at it and, if you still want it, ask again",
		s.Authority.Began.Format(time.RFC3339))
}

// sawOrphan compares that a volume is none of the agent's volumes.
type sawOrphan struct {
	agent      api.AgentID
	volume     api.VolumeID
	generation uint64
}

func (saw sawOrphan) changed(s *State) *Result {
	for _, v := range s.Agents[saw.agent].Volumes {
		if v.is(saw.volume, saw.generation) && !v.Destroying {
			return refusal("volume.destroy", api.Stale, saw.agent, "volume %s is no orphan any more", saw.volume)
		}
	}
	return nil
}

// sawUsage compares until when everything is counted, so that nothing is counted twice.
type sawUsage struct{ until time.Time }

func (saw sawUsage) changed(s *State) *Result {
	if s.Usage.Until.Equal(saw.until) {
		return nil
	}
	return refusal("usage.record", api.Stale, "", "another leader has counted until %s since", s.Usage.Until.Format(time.RFC3339))
}
