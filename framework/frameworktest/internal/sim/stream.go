package sim

import (
	"errors"
	"time"

	"github.com/tenderhq/tender/api"
)

// lane is one direction of a stream. It keeps the order, and loses nothing but its end.
type lane struct {
	open bool
	mute bool      // what is sent vanishes, and nobody notices
	last time.Time // when the latest that is under way arrives
}

// stream joins a client and a server until one of them, or the network, ends it.
type stream struct {
	world                      *World
	up, down                   lane
	atClient                   func(err *api.Error) // hears of the end, once
	atServer                   func()
	overAtClient, overAtServer bool
	delay                      time.Duration // of all that the server says
}

var (
	errOver   = api.E("stream", api.Unavailable, "", errors.New("the stream has ended"))
	errBroken = api.E("stream", api.Unavailable, "", errors.New("the stream is broken"))
)

func newStream(w *World) *stream {
	return &stream{world: w, up: lane{open: true}, down: lane{open: true}}
}

// send brings something to the other end, behind what was sent before.
func (s *stream) send(l *lane, deliver func()) {
	if !l.open || l.mute {
		return
	}
	at := s.world.now.Add(s.world.pause())
	if l == &s.down {
		at = at.Add(s.delay)
	}
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	s.world.at(at, func() {
		if l.open && !l.mute {
			deliver()
		}
	})
}

// closeByClient ends the stream from the client's side: what is under way to it is lost.
func (s *stream) closeByClient(err *api.Error) {
	s.down.open = false
	s.send(&s.up, s.endAtServer)
	s.world.in(0, func() { s.endAtClient(err) })
}

// closeByServer ends the stream after what was sent to the client, with a status.
func (s *stream) closeByServer(err *api.Error) {
	if err == nil {
		err = errOver
	}
	s.send(&s.down, func() { s.endAtClient(err) })
	s.world.in(s.world.pause(), s.endAtServer)
}

// tear breaks the stream: what is under way is lost, and both ends hear of it some time.
func (s *stream) tear() {
	s.up.open, s.down.open = false, false
	s.world.in(s.world.pause(), func() { s.endAtClient(errBroken) })
	s.world.in(s.world.pause(), s.endAtServer)
}

// silence swallows whatever is sent from now on; only a deadline notices.
func (s *stream) silence() { s.up.mute, s.down.mute = true, true }

func (s *stream) endAtClient(err *api.Error) {
	if s.overAtClient {
		return
	}
	s.overAtClient, s.down.open = true, false
	s.atClient(err)
}

func (s *stream) endAtServer() {
	if s.overAtServer {
		return
	}
	s.overAtServer, s.up.open = true, false
	s.atServer()
	if !s.overAtClient && s.down.open { // who serves has gone: the client sees the end of it
		s.send(&s.down, func() { s.endAtClient(errBroken) })
	}
}
