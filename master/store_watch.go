package master

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

// watchersMax bounds those who watch one framework's store, as each change is looked up in
// the loop for each of them, and up to two values wait for each to be read. One more is
// refused (Limit).
const watchersMax = 16

// storeNews wakes the watchers of a framework's store when a commit may have changed
// it, or whose store it is. Frameworks that nobody watches cost nothing.
type storeNews struct {
	mu      sync.Mutex
	watched map[api.FrameworkID]*watched // guarded by mu
}

// watched is a framework's store that somebody watches.
type watched struct {
	watchers int
	news     chan struct{} // closed and replaced at the next news
}

func newStoreNews() *storeNews { return &storeNews{watched: make(map[api.FrameworkID]*watched)} }

// join begins a watch; leave ends it.
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

// wait returns a channel that is closed at the next news of a framework that is watched.
func (n *storeNews) wait(id api.FrameworkID) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.watched[id].news
}

// tell wakes the watchers of the store that a commit concerns, once the core knows of it.
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
		case registry.Subscribe: // a newer session fences the watchers of the older
			n.wake(commit.Results[i].Framework)
		default: // changes no store
		}
	}
}

func (n *storeNews) wake(id api.FrameworkID) {
	if w := n.watched[id]; w != nil {
		close(w.news)
		w.news = make(chan struct{})
	}
}

// lending is some values on their way to a watcher.
type lending struct {
	out  atomic.Int64  // those that are not back, and one until all were lent
	done sync.Once     // all were lent
	back chan struct{} // closed when all are back
	all  func()        // called then
}

func newLending(all func()) *lending {
	l := &lending{back: make(chan struct{}), all: all}
	l.out.Store(1)
	return l
}

// lend is one more. Back may be called twice: by gRPC, and by who could not send it.
func (l *lending) lend(entry *apiv1.StoreEntry) *wire.Lent {
	l.out.Add(1)
	return &wire.Lent{Message: entry, Back: sync.OnceFunc(l.returned)}
}

// lent says that there are no more, and returns what is closed when all are back.
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
