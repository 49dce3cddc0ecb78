package intake

import (
	"net"
	"sync/atomic"
)

// Intake holds what a master needs to take in what its peers send.
type Intake struct {
	Desk      *Desk         // messages are read and written here
	Reads     *Desk         // reads of the leader's core are served here
	Requests  *Requests     // calls that are under way
	Peers     *Peers        // the accounts of peers with connections
	Programs  *Programs     // compiles constraints
	Redirects Pace          // paces the agents that are sent on to the leader
	Refusals  Pace          // paces the refusals of peers that want only the leader
	Refused   atomic.Uint64 // counts connections beyond the limit of their listener
}

// New makes an intake. It calls held for every wait of a peer.
func New(held func(Held)) *Intake {
	desk := NewDesk()
	return &Intake{
		Desk: desk, Reads: NewReads(), Requests: NewRequests(desk), Peers: NewPeers(held), Programs: NewPrograms(), Redirects: NewPace(), Refusals: NewPace(),
	}
}

// Bound limits how many connections of a listener may be open, and gives each its account.
func (i *Intake) Bound(listener net.Listener, limit int64) net.Listener {
	return NewListener(listener, limit, &i.Refused, i.Peers)
}
