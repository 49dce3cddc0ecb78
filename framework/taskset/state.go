package taskset

import "github.com/tenderhq/tender/api"

// state is what a set knows and decides: its items and their attempts, what waits for offers, and how its services
// change. Its methods are called under the set's lock and are told what happens and what time it is. They leave behind
// what is to be done: tasks to kill, outcomes and changes to tell, keys of the store to write.
type state struct {
	config   Config
	waiting  *waiting
	rollouts *rollouts

	known    bool // the leader has told which tasks of earlier processes run
	closed   bool
	items    map[string]*item
	attempts map[api.TaskID]*attempt
	records  map[string]record       // records in the store of items that are not added yet
	moves    map[api.OfferID][]*wish // services that are asked to leave, by inverse offer
	alarms   alarmClock
	numbers  Numbers
	faults   []error

	kills   []api.TaskID
	ended   []Outcome // outcomes that Config.Ended was not told of yet
	unsaved []string  // keys whose value in the store is out of date
	removed []string  // items whose record is to be deleted
}

func newState(config Config) *state {
	s := &state{
		config:   config,
		items:    make(map[string]*item),
		attempts: make(map[api.TaskID]*attempt),
		records:  make(map[string]record),
		moves:    make(map[api.OfferID][]*wish),
	}
	s.waiting = newWaiting(config, &s.alarms, s.beginPlaced)
	s.rollouts = &rollouts{state: s, services: make(map[string]*service), rolling: make(map[string]*service)}
	return s
}
