package plan

import (
	"maps"
	"slices"
	"time"
)

// Work is what a job has done for one stage. What other jobs have done for it before, and what is still there, is no part
// of it.
type Work struct {
	Shuffle ShuffleID // 0: the result
	// Done, Running and Failed count attempts of its tasks; those that ended with their executor are in none of them.
	Done, Running, Failed int
	// Again counts those that were done because the output of an earlier one was lost.
	Again int
	// Began is when the first attempt was started, Ended when the last one was done.
	Began, Ended time.Duration
	begun        bool
}

func (j *Job) workOf(task Task) *Work {
	w := j.work[task.Shuffle]
	if w == nil {
		w = &Work{Shuffle: task.Shuffle}
		j.work[task.Shuffle] = w
	}
	return w
}

// Work lists the stages that the job has done something for, in the order of their shuffles; the result is last.
func (j *Job) Work() (list []Work) {
	for _, id := range slices.Sorted(maps.Keys(j.work)) {
		one := *j.work[id]
		for task, attempts := range j.attempts { // order: irrelevant because they are added up
			if task.Shuffle == id {
				one.Running += len(attempts)
			}
		}
		list = append(list, one)
	}
	if len(list) > 0 && list[0].Shuffle == 0 {
		list = append(list[1:], list[0])
	}
	return list
}
