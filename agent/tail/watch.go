package tail

import (
	"slices"
	"sync"
	"time"
)

// Watcher tells followers about changes in folders. All of them share one watch of the kernel, which grants each user
// only so many. Where the kernel grants none, one clock replaces it. The zero value is ready to use and holds nothing
// while nobody follows. It may be used from any goroutine.
type Watcher struct {
	mu     sync.Mutex
	kernel *kernel           // nil: no follower uses it
	polled map[*changes]bool // the followers that the kernel does not tell
	stop   chan struct{}     // ends the clock for polled; nil: it does not run
}

// changes are the changes that one follower is told about.
type changes struct {
	seen  chan struct{} // something may have changed; one signal may stand for many changes
	names []string      // of the files that are followed
	watch int           // the kernel's watch of the folder; unused when polled
}

func (c *changes) signal() {
	select {
	case c.seen <- struct{}{}:
	default:
	}
}

// signalFor passes on the change of a file, if the file is followed. Without a name anything may have changed.
func (c *changes) signalFor(name string) {
	if name == "" || slices.Contains(c.names, name) {
		c.signal()
	}
}

// watch begins to tell about changes of the named files in the folder.
func (w *Watcher) watch(folder Folder, names []string) (*changes, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &changes{seen: make(chan struct{}, 1), names: names}
	granted, err := w.ask(c, folder)
	if err == nil && !granted {
		w.poll(c)
	}
	return c, err
}

// leave ends a watch.
func (w *Watcher) leave(c *changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.polled[c] {
		w.forget(c)
		return
	}
	delete(w.polled, c)
	if len(w.polled) == 0 {
		close(w.stop)
		w.stop = nil
	}
}

// pollInterval is how often followers check files where the kernel does not tell.
const pollInterval = 200 * time.Millisecond

// poll has the clock tell this follower. Callers hold mu.
func (w *Watcher) poll(c *changes) {
	if w.polled == nil {
		w.polled = make(map[*changes]bool)
	}
	w.polled[c] = true
	if w.stop == nil {
		w.stop = make(chan struct{})
		go w.tick(w.stop)
	}
}

// tick is the goroutine of the clock.
func (w *Watcher) tick(stop chan struct{}) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.signalPolled()
		case <-stop:
			return
		}
	}
}

func (w *Watcher) signalPolled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.polled { // order: irrelevant because each is signaled
		c.signal()
	}
}
