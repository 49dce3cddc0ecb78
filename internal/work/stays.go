package work

// rival is one of several tasks that do the same piece of work: one was taken for lost, another was started, and the
// first has come back.
type rival struct {
	Wanted  bool // it runs the version of the work that is wanted
	Running bool // it is RUNNING
	Ready   bool // it is RUNNING, and healthy as far as its health is told
	Number  int  // of the attempt; a later attempt has a higher one
}

// stays returns which of the rivals goes on; the others are to be ended. There is at least one.
//
// Of work that ends the oldest goes on, because it has done most, if it runs: hours of it may be done. Of a service one
// that is ready goes on, and of several the newest: the agent of the others was silent, and who uses the service has
// changed to the newest already. A task of another version goes on only if there is none of the wanted one.
func stays(rivals []rival, service bool) int {
	best := 0
	for i, r := range rivals {
		if r.before(rivals[best], service) {
			best = i
		}
	}
	return best
}

func (r rival) before(other rival, service bool) bool {
	switch {
	case r.Wanted != other.Wanted:
		return r.Wanted
	case service && r.Ready != other.Ready:
		return r.Ready
	case r.Running != other.Running:
		return r.Running
	case service && r.Ready:
		return r.Number > other.Number
	}
	return r.Number < other.Number
}
