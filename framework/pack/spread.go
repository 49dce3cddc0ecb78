package pack

import "github.com/tenderhq/tender/api"

// Spread counts tasks by place, so that they can be spread over places and kept apart. A framework keeps one Spread as
// long as it lives, tells it of tasks that end, and sets its methods in [Options]. It must not be used by several
// goroutines at the same time.
//
//	racks := pack.NewSpread(api.ByAttribute("rack"))
//	pack.Pack(offers, tasks, pack.Options{Rank: racks.Rank, Put: racks.Put})
type Spread struct {
	place  api.Place
	counts map[string]int
	where  map[api.TaskID]string
}

// NewSpread makes a Spread that counts by this kind of place. State the same in the demand ([api.Shape]): no more is
// offered at a time than is wanted, and the masters choose the agents.
func NewSpread(place api.Place) *Spread {
	return &Spread{place: place, counts: make(map[string]int), where: make(map[api.TaskID]string)}
}

// Count returns how many tasks are in the place.
func (s *Spread) Count(place string) int { return s.counts[place] }

// Rank prefers the places with the fewest tasks; use it as [Options].Rank.
func (s *Spread) Rank(bin *Bin, _ api.Task) float64 {
	return float64(s.counts[s.place.OfOffer(bin.Offer)])
}

// AtMost allows at most n tasks in a place (anti-affinity with n = 1); use it as [Options].Allow.
func (s *Spread) AtMost(n int) func(bin *Bin, task api.Task) bool {
	return func(bin *Bin, _ api.Task) bool { return s.counts[s.place.OfOffer(bin.Offer)] < n }
}

// Put counts a task; use it as [Options].Put.
func (s *Spread) Put(bin *Bin, task api.Task) {
	s.PutAt(s.place.OfOffer(bin.Offer), task.ID)
}

// PutAt counts a task that is known to be in the place, for example after a restart.
func (s *Spread) PutAt(place string, task api.TaskID) {
	if _, known := s.where[task]; known {
		return
	}
	s.where[task] = place
	s.counts[place]++
}

// Ended removes a task from the count.
func (s *Spread) Ended(task api.TaskID) {
	place, known := s.where[task]
	if !known {
		return
	}
	delete(s.where, task)
	if s.counts[place]--; s.counts[place] == 0 {
		delete(s.counts, place)
	}
}
