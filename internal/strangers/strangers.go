// Package strangers bounds peers that have connected and have not yet said whose they are. When there is one too many,
// the one that has been silent for longest has to go, so that no silent peer keeps others out. (Protocol rule R34.)
package strangers

import (
	"slices"
	"sync"
)

// Room holds a limited number of strangers. New makes one.
type Room struct {
	most int

	mu      sync.Mutex
	waiting []*stranger // the oldest first; guarded by mu
}

type stranger struct{ evict func() }

// New makes a room for at most that many strangers.
func New(most int) *Room { return &Room{most: most} }

// Enter adds a stranger. If there are then too many, the evict function of the one that has been there for longest is
// called once, by the newcomer. leave must be called when the stranger has said who it is, or has gone; a second call
// does nothing.
func (r *Room) Enter(evict func()) (leave func()) {
	one := &stranger{evict}
	r.mu.Lock()
	r.waiting = append(r.waiting, one)
	var oldest *stranger
	if len(r.waiting) > r.most {
		oldest = r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
	}
	r.mu.Unlock()
	if oldest != nil {
		oldest.evict()
	}
	return func() { r.leave(one) }
}

func (r *Room) leave(one *stranger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.waiting, one); at >= 0 {
		r.waiting = slices.Delete(r.waiting, at, at+1)
	}
}

// Len returns how many strangers there are.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
