package core

import (
	"time"

	"github.com/tenderhq/tender/internal/invariant"
)

// agentLife is how an agent's life stands, and why.
type agentLife struct {
	phase   phase
	account account
	clock   *deadline // session timeout, then TOMBSTONE, then gone
	gone    string    // why the stream is missing
	leftAt  time.Time // when its last stream of this term ended; zero: it had none
	refused string    // why its version is not accepted; "": it is
	unable  string    // why it can start nothing, as it said in this session; "" = it can
}

// phase is where an agent stands in its life, as the leader knows it. What a list shows is more than that: an agent
// that is up may be BUSY, or unable to start anything.
type phase uint8

const (
	// phaseAway: it has no stream, and may come back any moment.
	phaseAway phase = iota
	// phaseReporting: it has a stream, and has not told yet what it has.
	phaseReporting
	// phaseIniting: a new one, which has nothing to tell; its first heartbeat is not here yet.
	phaseIniting
	// phaseUp: its report is in and it is heard of. It does what it is told.
	phaseUp
	// phaseTombstone: it is taken for dead, or was marked gone. The policy does not know it.
	phaseTombstone
	// phaseOverdue: it has been a TOMBSTONE for so long that it waits to be marked gone.
	phaseOverdue
	// phaseReturning: a TOMBSTONE that has a stream again. Until its report is in it counts as dead.
	phaseReturning
)

var phaseNames = [...]string{"away", "reporting", "initing", "up", "tombstone", "overdue", "returning"}

func (p phase) String() string { return phaseNames[p] }

// phaseMoves are the moves that a life may make. A stream that replaces another one ends that one first.
var phaseMoves = [...][]phase{
	phaseAway:      {phaseReporting, phaseTombstone},
	phaseReporting: {phaseAway, phaseIniting, phaseUp},
	phaseIniting:   {phaseAway, phaseUp},
	phaseUp:        {phaseAway},
	phaseTombstone: {phaseOverdue, phaseReturning},
	phaseOverdue:   {phaseTombstone, phaseReturning},
	phaseReturning: {phaseTombstone, phaseReporting},
}

// enter moves the agent to a phase. Where it stands already it may stay.
func (a *agent) enter(next phase) {
	if next == a.phase {
		return
	}
	for _, may := range phaseMoves[a.phase] {
		if may == next {
			a.phase = next
			return
		}
	}
	invariant.Check(false, "agent %s is %v and may not become %v", a.id, a.phase, next)
}

// open begins a session.
func (a *agent) open() {
	if a.dead() {
		a.enter(phaseReturning)
	} else {
		a.enter(phaseReporting)
	}
}

// close ends the session. An agent that was taken for dead, and has not reported since, stays so.
func (a *agent) close() {
	if a.dead() {
		a.enter(phaseTombstone)
	} else {
		a.enter(phaseAway)
	}
}

// dead says that the agent is taken for dead: what ran there has been given up, and the policy does not know it.
func (a *agent) dead() bool {
	switch a.phase {
	case phaseTombstone, phaseOverdue, phaseReturning:
		return true
	}
	return false
}

// reported says that the agent's whole report of this session is in.
func (a *agent) reported() bool { return a.phase == phaseIniting || a.phase == phaseUp }

// alive says that the agent is RUNNING or BUSY: it does what it is told.
func (a *agent) alive() bool { return a.phase == phaseUp }

// account is how much an agent has told in this term, in any of its sessions. It only grows.
type account uint8

const (
	accountNone     account = iota // nothing yet: it may have tasks of earlier terms
	accountGiven                   // its tasks of earlier terms are known
	accountRebooted                // also, what ran before the reboot that it has reported is surely dead (R8)
)
