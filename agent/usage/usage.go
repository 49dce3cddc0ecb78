// Package usage measures what executors and tasks really use: processors and resident
// memory, as the kernel's process table shows them. It measures and changes nothing.
//
// A task is its process group; an executor is its session with all its tasks; the total
// is the sum of all executors.
package usage

import (
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Sampler measures. One goroutine uses it.
type Sampler interface {
	Sample(now time.Time, targets []core.Target) protocol.UsageReport
}

// Processes is the Sampler of real processes.
type Processes struct {
	before map[any]reading // by api.ExecutorRef or api.TaskRef
	list   func() ([]proc.Stat, error)
}

// New makes a sampler of this machine's processes.
func New() *Processes { return &Processes{list: proc.All} }

// reading is what one sample saw.
type reading struct {
	at    time.Time
	ticks uint64
	rss   uint64
	procs int
}

func (r *reading) add(p proc.Stat) {
	r.ticks += p.Ticks
	r.rss += p.Resident
	r.procs++
}

// Sample reads the process table once.
func (s *Processes) Sample(now time.Time, targets []core.Target) protocol.UsageReport {
	report := protocol.UsageReport{
		Total:     api.Usage{At: now},
		Executors: make(map[api.ExecutorRef]api.Usage, len(targets)),
		Tasks:     map[api.TaskRef]api.Usage{},
	}
	if !proc.TellsUsage { // nothing known is not nothing used
		return protocol.UsageReport{}
	}
	if len(targets) == 0 { // nothing runs: the table is not even read
		s.before = nil
		return report
	}
	all, err := s.list()
	if err != nil {
		return report
	}
	seen := gather(now, targets, all)
	for _, target := range targets {
		use := s.usage(now, target.Executor, seen)
		report.Executors[target.Executor] = use
		report.Total.CPU += use.CPU
		report.Total.CPUs += use.CPUs
		report.Total.Mem += use.Mem
		report.Total.Procs += use.Procs
		for _, task := range target.Tasks {
			ref := api.TaskRef{Framework: target.Executor.Framework, Task: task.Task}
			report.Tasks[ref] = s.usage(now, ref, seen)
		}
	}
	s.before = seen
	return report
}

// gather adds every process to those it belongs to. An executor that names a group in another executor's session is
// not believed.
func gather(now time.Time, targets []core.Target, all []proc.Stat) map[any]reading {
	type owner struct{ executor, task any }
	sessions, groups := map[int]owner{}, map[int]owner{}
	for _, target := range targets {
		sessions[target.Leader.PID] = owner{executor: target.Executor}
		for _, task := range target.Tasks {
			groups[task.Group.PID] = owner{target.Executor, api.TaskRef{Framework: target.Executor.Framework, Task: task.Task}}
		}
	}
	seen := map[any]reading{}
	count := func(key any, p proc.Stat) {
		r := seen[key]
		r.at = now
		r.add(p)
		seen[key] = r
	}
	for _, p := range all {
		who, found := sessions[p.Session]
		if named, is := groups[p.Group]; is && (!found || named.executor == who.executor) {
			who, found = named, true
		}
		if !found || p.Dead {
			continue
		}
		count(who.executor, p)
		if who.task != nil {
			count(who.task, p)
		}
	}
	return seen
}

// usage compares with the sample before. A sum can fall when a child's share is lost
// with a parent that did not wait for it; then it counts as nothing used.
func (s *Processes) usage(at time.Time, key any, seen map[any]reading) api.Usage {
	now, before := seen[key], s.before[key]
	use := api.Usage{
		At:    at,
		CPUs:  time.Duration(now.ticks) * time.Second / proc.TicksPerSecond,
		Mem:   api.Milli(now.rss * 1000 >> 20),
		Procs: now.procs,
	}
	if passed := at.Sub(before.at); !before.at.IsZero() && passed > 0 && now.ticks > before.ticks {
		use.CPU = api.Milli(float64(now.ticks-before.ticks) * 1000 / proc.TicksPerSecond / passed.Seconds())
	}
	return use
}
