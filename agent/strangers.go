package agent

import (
	"slices"
	"sync"
)

// strangersMax bounds the streams of executors that have not said whose they are. Of one more than that, the
// one that has been silent for longest is ended, so that nobody who says nothing keeps executors out; an
// executor comes back.
const strangersMax = 256

// strangers are the streams whose executor is not known yet, the oldest first.
type strangers struct {
	mutex   sync.Mutex
	waiting []chan struct{} // closed when it is evicted; guarded by mutex
}

// enter adds a stream; evicted is closed when it has been there for longest of too many. It calls leave once.
func (s *strangers) enter() (evicted <-chan struct{}, leave func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.waiting) == strangersMax {
		close(s.waiting[0])
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	one := make(chan struct{})
	s.waiting = append(s.waiting, one)
	return one, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.waiting = slices.DeleteFunc(s.waiting, func(c chan struct{}) bool { return c == one })
	}
}
