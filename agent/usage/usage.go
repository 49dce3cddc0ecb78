// Package usage measures what executors and tasks really use: processors and memory. It measures and changes nothing.
//
// With control groups, an executor or a task is measured by its group: all that is in it, and memory without what is
// only cached of files. Without them, the table of processes is searched: a task is its process group, an executor its
// session with all its tasks, and their memory is what is resident. The total is the sum of all executors.
package usage

import (
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/proc"
	"github.com/tenderhq/tender/agent/walls/cell"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Sampler measures usage. One goroutine uses it.
type Sampler interface {
	Sample(now time.Time, targets []core.Target) protocol.UsageReport
}

// Processes is the Sampler of real processes.
type Processes struct {
	before map[any]reading // by api.ExecutorRef or api.TaskRef
	walls  Measure
	list   func() ([]proc.Stat, error)
}

// Measure returns the control group of an executor or, if task is set, of that task, and what is used in it. found is
// false if there is none, or it is gone.
type Measure func(executor api.ExecutorRef, task api.TaskID) (group string, used cell.Usage, found bool)

// New makes a sampler of this machine's processes. Walls is nil where nothing has control groups.
func New(walls Measure) *Processes { return &Processes{walls: walls, list: proc.All} }

// reading is what one sample found for an executor or a task.
type reading struct {
	at     time.Time
	cpu    time.Duration
	memory uint64
	procs  int
}

func (r *reading) add(p proc.Stat) {
	r.cpu += time.Duration(p.Ticks) * time.Second / proc.TicksPerSecond
	r.memory += p.Resident
	r.procs++
}

// Sample takes a sample. It reads the process table once, if some target has no walls.
func (s *Processes) Sample(now time.Time, targets []core.Target) protocol.UsageReport {
	report := protocol.UsageReport{
		Total:     api.Usage{At: now},
		Executors: make(map[api.ExecutorRef]api.Usage, len(targets)),
		Tasks:     map[api.TaskRef]api.Usage{},
	}
	if !proc.TellsUsage { // what is not known must not be told as nothing used
		return protocol.UsageReport{}
	}
	if len(targets) == 0 { // nothing runs, so the table is not even read
		s.before = nil
		return report
	}
	seen, err := s.look(now, targets)
	if err != nil {
		return report
	}
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

// look reads what each executor and each task has used so far.
func (s *Processes) look(now time.Time, targets []core.Target) (map[any]reading, error) {
	seen, rest := s.measure(now, targets)
	if len(rest) == 0 {
		return seen, nil
	}
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	for key, found := range gather(now, rest, all) { // order: irrelevant because keys differ
		if _, walled := seen[key]; !walled {
			seen[key] = found
		}
	}
	return seen, nil
}

// measure reads the walls, and returns the targets of which some part has none.
func (s *Processes) measure(now time.Time, targets []core.Target) (seen map[any]reading, rest []core.Target) {
	seen = map[any]reading{}
	if s.walls == nil {
		return seen, targets
	}
	for _, target := range targets {
		_, used, whole := s.walls(target.Executor, "")
		if whole {
			seen[target.Executor] = reading{now, used.CPU, used.Memory, used.Processes}
		}
		for _, task := range target.Tasks {
			_, used, found := s.walls(target.Executor, task.Task)
			if found {
				seen[api.TaskRef{Framework: target.Executor.Framework, Task: task.Task}] = reading{now, used.CPU, used.Memory, used.Processes}
			}
			whole = whole && found
		}
		if !whole {
			rest = append(rest, target)
		}
	}
	return seen, rest
}

// gather adds every process to the executor and the task that it belongs to. An executor that names a process group in
// the session of another executor is not believed.
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

// usage compares a reading with the one before. The processor time can fall when a parent did not wait for its child,
// whose share is then lost; that counts as nothing used.
func (s *Processes) usage(at time.Time, key any, seen map[any]reading) api.Usage {
	now, before := seen[key], s.before[key]
	use := api.Usage{
		At:    at,
		CPUs:  now.cpu,
		Mem:   api.Milli(now.memory * 1000 >> 20),
		Procs: now.procs,
	}
	if passed := at.Sub(before.at); !before.at.IsZero() && passed > 0 && now.cpu > before.cpu {
		use.CPU = api.Milli(float64(now.cpu-before.cpu) * 1000 / float64(passed))
	}
	return use
}
