package locality

import "time"

// Numbers are what delay scheduling has gained and cost.
type Numbers struct {
	Launched [3]int        // tasks with a preference, by the level at which they were launched
	Home     int           // tasks launched without a preference
	Skipped  int           // offers that were let pass
	Waited   time.Duration // from the first offer let pass to the launch, summed over launches
	Longest  time.Duration // the longest of these waits
	// Idle is for how long room was let pass and not used, summed over the tasks that it would have held. Whether
	// others have taken the room meanwhile is not known, so it counts until its offer should have come again. With
	// Withhold nothing is let pass.
	Idle time.Duration
}

// Tasks returns how many tasks with a preference were launched.
func (n Numbers) Tasks() int { return n.Launched[Node] + n.Launched[Near] + n.Launched[Any] }

// HitRate returns the part of those tasks that ran on a preferred agent; 1 if there were none.
func (n Numbers) HitRate() float64 {
	if n.Tasks() == 0 {
		return 1
	}
	return float64(n.Launched[Node]) / float64(n.Tasks())
}

// MeanWait returns how long a launch has waited on average.
func (n Numbers) MeanWait() time.Duration {
	if n.Tasks() == 0 {
		return 0
	}
	return n.Waited / time.Duration(n.Tasks())
}

// Plus returns the sum of both; Longest is the longer one.
func (n Numbers) Plus(m Numbers) Numbers {
	for level := range n.Launched {
		n.Launched[level] += m.Launched[level]
	}
	n.Home += m.Home
	n.Skipped += m.Skipped
	n.Waited += m.Waited
	n.Longest = max(n.Longest, m.Longest)
	n.Idle += m.Idle
	return n
}

// Numbers returns the numbers of the job; for "" the sum over all jobs that are not forgotten.
func (d *Delay) Numbers(name string) Numbers {
	if name != "" {
		if j := d.jobs[name]; j != nil {
			return j.numbersNow()
		}
		return Numbers{}
	}
	var sum Numbers
	for _, j := range d.jobs { // order: irrelevant because it is a sum
		sum = sum.Plus(j.numbersNow())
	}
	return sum
}

func (j *job) numbersNow() Numbers {
	numbers := j.numbers
	numbers.Idle = j.idle.total(time.Now())
	return numbers
}
