package keeper

// waiters are who wait until what is to be written of a job is in the store.
type waiters struct {
	busy  bool     // a batch is being written
	under []waiter // who wait for that one
	grows []waiter // who wait for the next one
}

type waiter struct {
	job  string
	tell func(refused, over error)
}

// Await has somebody told once all is written that has to be written by now: why the store has not taken the job, or why
// nothing more is written. If there is nothing to write, he is told at once.
func (k *Keeper) Await(job string, tell func(refused, over error)) {
	switch {
	case k.Any():
		k.grows = append(k.grows, waiter{job, tell})
	case k.busy:
		k.under = append(k.under, waiter{job, tell})
	default:
		tell(nil, nil)
	}
}

// Busy reports whether a batch is being written.
func (k *Keeper) Busy() bool { return k.busy }

// tellAll tells everybody on the list, who then waits no more.
func tellAll(list *[]waiter, what func(waiter) (refused, over error)) {
	waiting := *list
	*list = nil
	for _, w := range waiting {
		w.tell(what(w))
	}
}
