package guard

import "sync"

// NamesMax bounds what one metric names.
const NamesMax = 100

// Others stands for everything further. It can't be a principal's name, nor that of a framework or a job.
const Others = "(others)"

// Names decides which principals, frameworks or jobs a metric names: the first ones for which there was something to
// report. The zero value is ready to use.
type Names struct {
	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

// Of returns the name under which something is counted; "" stays "".
func (n *Names) Of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[name]; known || name == "" {
		return name
	}
	if len(n.known) == NamesMax {
		return Others
	}
	if n.known == nil {
		n.known = make(map[string]struct{})
	}
	n.known[name] = struct{}{}
	return name
}

// Forget gives the place of a name to the next one. It reports whether the name had a place.
func (n *Names) Forget(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, known := n.known[name]
	delete(n.known, name)
	return known
}

// Known returns the name under which something was counted, and takes no place for it.
func (n *Names) Known(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[name]; known {
		return name
	}
	return Others
}
