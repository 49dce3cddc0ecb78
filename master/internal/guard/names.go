package guard

import "sync"

// namesMax bounds the principals that one metric names.
const namesMax = 100

// others stands for all further principals. It can't be a principal's name.
const others = "(others)"

// Names decides which principals a metric names: the first ones for which there was something to report. The zero value
// is ready to use.
type Names struct {
	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

// Of returns the name under which a principal is counted; "" stays "".
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
