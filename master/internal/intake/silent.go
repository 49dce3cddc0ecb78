package intake

import "github.com/tenderhq/tender/internal/strangers"

const (
	// silentStreamsMax bounds the sessions of an address of which the first call has not come, and silentConnectionsMax its
	// connections on which nothing was called. Of one more, the one that has been silent for longest is ended: an honest
	// peer calls as soon as it has connected, and speaks as soon as it has called.
	silentStreamsMax     = 128
	silentConnectionsMax = 1024
)

// silence is what an address has open without a word.
type silence struct{ streams, connections *strangers.Room }

func newSilence() silence {
	return silence{strangers.New(silentStreamsMax), strangers.New(silentConnectionsMax)}
}

// Silent counts a session among those of its address that have said nothing. Evict is called once when it has to go. Call
// heard when its first call has come, or it has ended.
func (s *Sender) Silent(evict func()) (heard func()) {
	if s.address == nil {
		return func() {}
	}
	return s.address.silence.streams.Enter(evict)
}

// begin counts a connection among those of its address on which nothing was called; evict closes it.
func (s *Sender) begin(evict func()) { s.called = s.address.silence.connections.Enter(evict) }

// calls ends that.
func (s *Sender) calls() {
	if s.called != nil {
		s.once.Do(s.called)
	}
}
