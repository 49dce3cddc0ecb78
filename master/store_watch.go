package master

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/intake"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

// watchersMax bounds the watchers of one framework's store. The loop looks up each change for each watcher, and up to
// two values wait for each of them to be read. One more is refused (Limit).
const watchersMax = 16

// storeNews wakes the watchers of a framework's store when a commit may have changed the store, or the session that it
// belongs to. Frameworks without watchers cost nothing. It also bounds what is being written.
type storeNews struct {
	writes *intake.Budget // bounds the bytes of store writes that are under way

	mu      sync.Mutex
	watched map[api.FrameworkID]*watched // guarded by mu
}

// watched is a framework's store that has watchers.
type watched struct {
	watchers int
	news     chan struct{} // closed and replaced when there is news
}

// join begins a watch, or refuses it; leave ends it.
func (n *storeNews) join(id api.FrameworkID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.watched[id]
	if w == nil {
		w = &watched{news: make(chan struct{})}
		n.watched[id] = w
	}
	if w.watchers == watchersMax {
		return api.E("store.watch", api.Limit, id, fmt.Errorf("%d watch this store already, which is the most", watchersMax))
	}
	w.watchers++
	return nil
}

func (n *storeNews) leave(id api.FrameworkID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.watched[id]
	if w.watchers--; w.watchers == 0 {
		delete(n.watched, id)
	}
}

// wait returns a channel that is closed at the next news of a watched framework.
func (n *storeNews) wait(id api.FrameworkID) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.watched[id].news
}

// tell wakes the watchers of stores that a commit concerns. It is called when the core has applied the commit.
func (n *storeNews) tell(commit raftlog.Commit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.watched) == 0 {
		return
	}
	for i, command := range commit.Commands {
		switch change := command.Change.(type) {
		case registry.PutEntry:
			n.wake(change.Framework)
		case registry.DeleteEntry:
			n.wake(change.Framework)
		case registry.RemoveFramework:
			n.wake(change.ID)
		case registry.Subscribe: // a newer session fences the watchers of the older one
			n.wake(commit.Results[i].Framework)
		default: // other changes concern no store
		}
	}
}

func (n *storeNews) wake(id api.FrameworkID) {
	if w := n.watched[id]; w != nil {
		close(w.news)
		w.news = make(chan struct{})
	}
}

// lending tracks the values that are on their way to a watcher.
type lending struct {
	out  atomic.Int64  // values that are not back yet, plus one until all are lent
	done sync.Once     // counts out that plus one
	back chan struct{} // closed when all are back
	all  func()        // called when all are back
}

func newLending(all func()) *lending {
	l := &lending{back: make(chan struct{}), all: all}
	l.out.Store(1)
	return l
}

// lend wraps one more value. Its Back may be called twice: by gRPC, and by the sender if it could not send it.
func (l *lending) lend(entry *apiv1.StoreEntry) *wire.Lent {
	l.out.Add(1)
	return &wire.Lent{Message: entry, Back: sync.OnceFunc(l.returned)}
}

// lent says that no more values follow, and returns a channel that is closed when all are back.
func (l *lending) lent() <-chan struct{} {
	l.done.Do(l.returned)
	return l.back
}

func (l *lending) returned() {
	if l.out.Add(-1) == 0 {
		close(l.back)
		l.all()
	}
}
