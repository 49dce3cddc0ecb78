package pack

import "github.com/tenderhq/tender/api"

// Spread counts tasks by place, so that they can be spread and kept apart. A framework
// keeps one as long as it lives, tells it of tasks that end, and gives its methods to
// [Options]. Not for use by several goroutines.
//
//	racks := pack.NewSpread(pack.ByAttribute("rack"))
//	pack.Pack(offers, tasks, pack.Options{Rank: racks.Rank, Put: racks.Put})
type Spread struct {
	place  func(api.Offer) string
	counts map[string]int
	where  map[api.TaskID]string
}

// NewSpread counts by what place makes of an offer.
func NewSpread(place func(api.Offer) string) *Spread {
	return &Spread{place: place, counts: make(map[string]int), where: make(map[api.TaskID]string)}
}

// ByAttribute tells places apart by an attribute of the agent.
func ByAttribute(name string) func(api.Offer) string {
	return func(offer api.Offer) string { return offer.Attributes[name] }
}

// ByAgent takes each agent for a place.
func ByAgent(offer api.Offer) string { return string(offer.Agent) }

// ByZone takes each zone for a place; zones of the same name in two regions are two.
func ByZone(offer api.Offer) string { return offer.Region + "/" + offer.Zone }

// ByRegion takes each region for a place.
func ByRegion(offer api.Offer) string { return offer.Region }

// Count is how many tasks are in the place.
func (s *Spread) Count(place string) int { return s.counts[place] }

// Rank prefers the place with the fewest tasks.
func (s *Spread) Rank(bin *Bin, _ api.Task) float64 {
	return float64(s.counts[s.place(bin.Offer)])
}

// AtMost allows n tasks in a place: anti-affinity with n = 1.
func (s *Spread) AtMost(n int) func(bin *Bin, task api.Task) bool {
	return func(bin *Bin, _ api.Task) bool { return s.counts[s.place(bin.Offer)] < n }
}

// Put counts a task.
func (s *Spread) Put(bin *Bin, task api.Task) {
	if _, known := s.where[task.ID]; known {
		return
	}
	place := s.place(bin.Offer)
	s.where[task.ID] = place
	s.counts[place]++
}

// Ended takes a task out of the count.
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
