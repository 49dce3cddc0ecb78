package master

import (
	"sync"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/registry"
)

// storeNews wakes the watchers of a framework's store when a commit may have changed
// it, or whose store it is. Frameworks that nobody watches cost nothing.
type storeNews struct {
	mu      sync.Mutex
	waiting map[api.FrameworkID]chan struct{} // guarded by mu
}

func newStoreNews() *storeNews { return &storeNews{waiting: make(map[api.FrameworkID]chan struct{})} }

// wait returns a channel that is closed at the next news of a framework.
func (n *storeNews) wait(id api.FrameworkID) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting[id] == nil {
		n.waiting[id] = make(chan struct{})
	}
	return n.waiting[id]
}

// tell is called when the core knows of the commit.
func (n *storeNews) tell(commit raftlog.Commit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
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
		}
	}
}

func (n *storeNews) wake(id api.FrameworkID) {
	if news := n.waiting[id]; news != nil {
		close(news)
		delete(n.waiting, id)
	}
}
