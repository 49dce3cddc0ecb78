package master

import (
	"fmt"
	"sync"

	"github.com/tenderhq/tender/api"
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
