package intake

import (
	"net"
	"sync/atomic"
)

// Intake is what one master has for all its peers.
type Intake struct {
	Desk      *Desk         // where messages are read and written
	Reads     *Desk         // where those are served who look at the leader's core
	Requests  *Requests     // calls that are under way
	Peers     *Peers        // who has connections
	Programs  *Programs     // of constraints
	Redirects Pace          // of agents
	Refusals  Pace          // of those who want the leader alone
	Refused   atomic.Uint64 // connections beyond the limit of their listener
}

// New tells held of every wait.
func New(held func(Held)) *Intake {
	desk := NewDesk()
	return &Intake{
		Desk: desk, Reads: NewReads(), Requests: NewRequests(desk), Peers: NewPeers(held), Programs: NewPrograms(), Redirects: NewPace(), Refusals: NewPace(),
	}
}

// Bound lets so many connections of a listener be open at a time, and gives each its account.
func (i *Intake) Bound(listener net.Listener, limit int64) net.Listener {
	return NewListener(listener, limit, &i.Refused, i.Peers)
}
