package guard

import "sync"

// namesMax bounds the principals that one metric names.
const namesMax = 100

// others stands for the principals beyond that; it is the name of none.
const others = "(others)"

// Names are the principals that a metric names: the first that there was something to tell of. The zero value is ready.
type Names struct {
	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

// Of is the name under which a principal is counted; "" stays.
func (n *Names) Of(principal string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[principal]; known || principal == "" {
		return principal
	}
	if len(n.known) == namesMax {
		return others
	}
	if n.known == nil {
		n.known = make(map[string]struct{})
	}
	n.known[principal] = struct{}{}
	return principal
}
