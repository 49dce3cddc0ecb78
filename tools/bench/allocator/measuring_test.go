package allocator_test

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tenderhq/tender/allocator"
)

// pinned keeps the goroutine on its thread, as CPU requires, until the result is called.
func pinned() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// Sample is several measurements of one thing.
type Sample []time.Duration

// Median returns the value in the middle.
func (s Sample) Median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)/2]
}

// String returns text such as "5.6 ms (5.4-6.1) n=20".
func (s Sample) String() string {
	return fmt.Sprintf("%s (%s-%s) n=%d", short(s.Median()), short(slices.Min(s)), short(slices.Max(s)), len(s))
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d >= 10*time.Microsecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	}
	return fmt.Sprintf("%.2f µs", float64(d)/1e3)
}

// New makes a new allocator.
type New func() allocator.Allocator

// FullCycle offers every agent once, n times. Between the cycles all offers are returned without a filter. keep: only
// one of so many frameworks is not suppressed.
func FullCycle(fresh New, agents, frameworks, keep, n int) (Sample, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	if keep > 1 {
		w.Suppress(keep)
	}
	w.Cycle() // the first cycle also allocates memory
	var cycles Sample
	for range n {
		w.GiveBack(0)
		cycles = append(cycles, w.Cycle())
		if len(w.Offers) != agents {
			return nil, fmt.Errorf("%d of %d agents were offered", len(w.Offers), agents)
		}
	}
	return cycles, nil
}

// Declined holds the costs of DeclineOffers.
type Declined struct {
	Early          Sample  // the first cycles
	Unchanged      Sample  // cycles after every framework has declined every agent
	Woken          Sample  // the same after an agent's resources have changed, so that all its filters are checked
	BytesPerFilter float64 // of the heap
}

// DeclineEarly plays the first cycles of DeclineOffers: every offer is declined for a year, until there are filtersMax
// filters.
func DeclineEarly(fresh New, agents, frameworks, filtersMax int) (Sample, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	var early Sample
	for filters := 0; filters < filtersMax && len(early) < 2*frameworks; filters += agents {
		early = append(early, w.Cycle())
		if want := agents; len(w.Offers) != want && len(early) <= frameworks {
			return nil, fmt.Errorf("%d of %d agents were offered", len(w.Offers), want)
		}
		w.GiveBack(365 * 24 * time.Hour)
	}
	return early, nil
}

// DeclineAll makes every framework decline every agent for a year.
func DeclineAll(fresh New, agents, frameworks int) (Declined, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	var d Declined
	before := heap()
	filters := 0
	for {
		took := w.Cycle()
		if len(w.Offers) == 0 {
			break
		}
		if len(d.Early) < 10 {
			d.Early = append(d.Early, took)
		}
		filters += len(w.Offers)
		w.GiveBack(365 * 24 * time.Hour)
	}
	if filters != agents*frameworks {
		return d, fmt.Errorf("%d filters instead of %d", filters, agents*frameworks)
	}
	d.BytesPerFilter = float64(heap()-before) / float64(filters)
	for range 100 {
		d.Unchanged = append(d.Unchanged, w.Cycle())
	}
	used := InUse()
	for i := range 20 {
		claim := allocator.Claim{Framework: w.Framework(i), Role: Role, Agent: w.Agent(i), Resources: used, Task: "more"}
		claim.Resources = must("cpus:1")
		w.Policy.Take(claim)
		w.Cycle()
		w.Policy.Return(claim)
		d.Woken = append(d.Woken, w.Cycle())
	}
	return d, nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// OneReturns measures, n times, the time from the return of one offer to the next offer of its resources.
func OneReturns(fresh New, agents, frameworks, keep, n int) (Sample, error) {
	defer pinned()()
	w := NewWorld(fresh(), agents, frameworks)
	w.Suppress(keep)
	w.Cycle()
	var sample Sample
	for i := range n {
		last := len(w.Offers) - 1
		at := (i * 7919) % len(w.Offers)
		offer := w.Offers[at]
		w.Offers[at] = w.Offers[last]
		w.Offers = w.Offers[:last]
		start := CPU()
		w.Policy.Return(offer)
		took := CPU() - start
		sample = append(sample, took+w.Cycle())
		if len(w.Offers) != last+1 {
			return nil, fmt.Errorf("it was not offered again")
		}
	}
	return sample, nil
}
