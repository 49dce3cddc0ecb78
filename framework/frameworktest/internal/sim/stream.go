package sim

import (
	"errors"
	"time"

	"github.com/tenderhq/tender/api"
)

// lane is one direction of a stream. It keeps the order; if anything is lost, it is everything from some point on.
type lane struct {
	open bool
	mute bool      // what is sent is lost, and nobody notices
	last time.Time // when the last message under way arrives
}

// stream connects a client and a server until one of them, or the network, ends it.
type stream struct {
	world                      *World
	up, down                   lane
	atClient                   func(err *api.Error) // is called once, when the client learns of the end
	atServer                   func()
	overAtClient, overAtServer bool
	delay                      time.Duration // delay of everything that the server sends
}

var (
	errOver   = api.E("stream", api.Unavailable, "", errors.New("the stream has ended"))
	errBroken = api.E("stream", api.Unavailable, "", errors.New("the stream is broken"))
)

func newStream(w *World) *stream {
	return &stream{world: w, up: lane{open: true}, down: lane{open: true}}
}

// send delivers something at the other end, after everything that was sent before.
func (s *stream) send(l *lane, deliver func()) {
	if !l.open || l.mute {
		return
	}
	at := s.world.now.Add(s.world.drawPause())
	if l == &s.down {
		at = at.Add(s.delay)
	}
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	s.world.planAt(at, func() {
		if l.open && !l.mute {
			deliver()
		}
	})
}

// carry sends messages in one direction. The function reads one at the other end, and returns what happens there then.
func carry[Message any](s *stream, l *lane, messages []Message, err error, read func(Message) (hear func(), err error)) {
	if err != nil {
		s.world.breakStory("something fits no message: %v", err)
	}
	for _, message := range messages {
		s.send(l, func() {
			hear, err := read(message)
			if err != nil {
				s.world.breakStory("the other end can't read a %T: %v", message, err)
				return
			}
			hear()
		})
	}
}

// closeByClient ends the stream from the client's side: what is under way to the client is lost.
func (s *stream) closeByClient(err *api.Error) {
	s.down.open = false
	s.send(&s.up, s.endAtServer)
	s.world.planIn(0, func() { s.endAtClient(err) })
}

// closeByServer ends the stream with a status, after everything that was sent to the client.
func (s *stream) closeByServer(err *api.Error) {
	if err == nil {
		err = errOver
	}
	s.send(&s.down, func() { s.endAtClient(err) })
	s.world.planIn(s.world.drawPause(), s.endAtServer)
}

// tear breaks the stream: what is under way is lost, and both ends notice it at some time.
func (s *stream) tear() {
	s.up.open, s.down.open = false, false
	s.world.planIn(s.world.drawPause(), func() { s.endAtClient(errBroken) })
	s.world.planIn(s.world.drawPause(), s.endAtServer)
}

// silence loses everything that is sent from now on; only deadlines notice it.
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
	if !s.overAtClient && s.down.open { // the server has gone: the client notices the end
		s.send(&s.down, func() { s.endAtClient(errBroken) })
	}
}
