package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/master/core/admission"
)

// successor is a stream of an agent from another boot or host than its stream that looks
// alive. It waits until the older one has been asked (R7): a host that was booted again within
// a session timeout says nothing more there; only of a cloned data folder do both go on.
type successor struct {
	link     *link
	greeting admission.Greeting
	asked    time.Time
}

// successorHeartbeats is how long the older stream has to say something: one heartbeat, and as
// long again for its way.
const successorHeartbeats = 2

// contested: the agent has a stream from another boot or host that looks alive.
func (r *agents) contested(id api.AgentID, g admission.Greeting) bool {
	a := r.agentByID[id]
	if a == nil || a.link == nil || r.now.Sub(a.seen) >= r.config.SessionTimeout {
		return false
	}
	return a.boot != g.Boot || a.host != g.Agent.Hostname
}

// askPredecessor lets the new stream wait for the older one's answer. What is sent to a host
// that was booted again breaks that stream at once, as nobody there knows it.
func (r *agents) askPredecessor(l *link, a *agent, g admission.Greeting) {
	if former := a.successor; former != nil {
		r.refuseAgent(former.link, a.id, api.Stale, errors.New("a newer stream of the same agent has come"))
	}
	r.info("agent asked whether it lives", field("agent", a.id), field("why", "another boot or host comes with its ID"), field("host", g.Agent.Hostname))
	l.waits, a.successor = a, &successor{l, g, r.now}
	r.deadlines.set(a.asked, r.now.Add(successorHeartbeats*r.config.HeartbeatInterval))
	r.tellAgent(a, protocol.AgentPong{})
}

// predecessorSpoke refuses the successor: both are alive. What came before the question is no
// answer to it.
func (r *agents) predecessorSpoke(a *agent) {
	if s := a.successor; s != nil && r.came.After(s.asked) {
		r.forgetSuccessor(a)
		r.refuseAgent(s.link, a.id, api.Exists, fmt.Errorf("the agent with this ID is alive on %s: a cloned data folder?", a.host))
	}
}

// endPredecessor ends the older stream, which said nothing, and lets the successor in.
func (r *agents) endPredecessor(a *agent) {
	if a.successor == nil || a.link == nil {
		return
	}
	why := "another boot of its host has taken over"
	r.emit(CloseAgent{Conn: a.link.conn, Err: api.E("agent.session", api.Stale, a.id, errors.New(why))})
	r.disconnectAgent(a, why)
}

// admitSuccessor goes on with the stream that waited, as the older one has ended.
func (r *agents) admitSuccessor(a *agent) {
	if s := a.successor; s != nil {
		r.forgetSuccessor(a)
		r.greet(s.link, s.greeting)
	}
}

func (r *agents) forgetSuccessor(a *agent) {
	a.successor.link.waits, a.successor = nil, nil
	r.deadlines.clear(a.asked)
}
