package intake

import "github.com/tenderhq/tender/internal/strangers"

const (
	// silentStreamsMax bounds the sessions of an address whose first call has not come. silentConnectionsMax bounds its
	// connections on which no call was made. When there is one more, the one that has been silent for longest is ended.
	// An honest peer makes a call as soon as it has connected, and speaks as soon as it has made the call.
	silentStreamsMax     = 128
	silentConnectionsMax = 1024
)

// silence counts the streams and connections of an address that are silent so far.
type silence struct{ streams, connections *strangers.Room }

// Silent counts a session among the silent ones of its address. It calls evict once if the session has to end. Call
// heard when the session's first call has come, or when it has ended.
func (s *Sender) Silent(evict func()) (heard func()) {
	if s.address == nil {
		return func() {}
	}
	return s.address.silence.streams.Enter(evict)
}

// begin counts a connection among those of its address on which no call was made; evict closes it.
func (s *Sender) begin(evict func()) { s.called = s.address.silence.connections.Enter(evict) }

// calls notes that a call was made on the connection, so that it no longer counts as silent.
func (s *Sender) calls() {
	if s.called != nil {
		s.once.Do(s.called)
	}
}
